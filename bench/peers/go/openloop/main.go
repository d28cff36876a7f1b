// Calls a server at a fixed rate, whether or not earlier calls are answered, and tells the
// latencies, each from the moment at which the call was due: a server that falls behind cannot
// hide it. Messages are bytes that it does not look into, so that it costs little itself.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"log"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

const (
	timeLimit = 10 * time.Second
	// More than this under way at once means that the server has been left behind.
	maxUnderWay = 20_000
)

type asItIs struct{}

func (asItIs) Name() string { return "proto" }

func (asItIs) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (asItIs) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

type report struct {
	// Of the calls that were answered.
	Milliseconds []float64 `json:"milliseconds"`
	Seconds      float64   `json:"seconds"`
	Failed       int       `json:"failed"`
	// Why the first one failed.
	Fault string `json:"fault"`
}

func main() {
	address := flag.String("address", "", "host:port")
	method := flag.String("method", "", "package.Service/Method")
	file := flag.String("messages", "", "messages, each after its length as a varint")
	rate := flag.Int("rate", 1, "calls a second")
	seconds := flag.Float64("seconds", 1, "how long")
	flag.Parse()
	// One for the pacer, which sleeps in the kernel: Go's own timers are coarse.
	runtime.GOMAXPROCS(2)

	connection, err := grpc.NewClient(
		*address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asItIs{})),
	)
	if err != nil {
		log.Fatal(err)
	}
	caller := &caller{connection: connection, method: "/" + *method}
	messages := read(*file)
	if err := caller.call(messages[0]); err != nil { // connects
		log.Fatal(err)
	}

	total := max(1, int(float64(*rate)**seconds))
	took := make([]float64, total)
	faults := make([]error, total)
	var done sync.WaitGroup
	runtime.LockOSThread()
	start := time.Now()
	for number := range total {
		due := start.Add(time.Duration(float64(number) / float64(*rate) * 1e9))
		if wait := time.Until(due); wait > 0 {
			pause := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&pause, nil)
		}
		if caller.underWay.Load() > maxUnderWay {
			log.Fatalf("fell behind: %d calls are not answered", maxUnderWay)
		}
		done.Add(1)
		go func() {
			defer done.Done()
			faults[number] = caller.call(messages[number%len(messages)])
			took[number] = float64(time.Since(due)) / 1e6
		}()
	}
	done.Wait()
	found := report{Seconds: time.Since(start).Seconds(), Milliseconds: []float64{}}
	for number, fault := range faults {
		if fault == nil {
			found.Milliseconds = append(found.Milliseconds, took[number])
			continue
		}
		if found.Failed == 0 {
			found.Fault = fault.Error()
		}
		found.Failed++
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

type caller struct {
	connection *grpc.ClientConn
	method     string
	underWay   atomic.Int64
}

func (c *caller) call(message []byte) error {
	c.underWay.Add(1)
	defer c.underWay.Add(-1)
	limited, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	var answer []byte
	return c.connection.Invoke(limited, c.method, message, &answer)
}

func read(name string) [][]byte {
	file, err := os.Open(name)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	var messages [][]byte
	for reader := bufio.NewReader(file); ; {
		size, err := binary.ReadUvarint(reader)
		if err == io.EOF && len(messages) > 0 {
			return messages
		}
		if err != nil {
			log.Fatal(err)
		}
		message := make([]byte, size)
		if _, err := io.ReadFull(reader, message); err != nil {
			log.Fatal(err)
		}
		messages = append(messages, message)
	}
}
