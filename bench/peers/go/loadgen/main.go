// Asks a server over gRPC, either at a fixed rate, whether or not earlier calls are answered, or
// with a fixed number of calls under way. It tells the latencies; at a fixed rate each counts from
// the moment at which the call was due, so that a server that falls behind cannot hide it.
//
// What it needs itself must not be what is measured, so it writes and reads the frames of its
// connections directly: in a client of grpc-go the goroutines waited longer for each other than for
// a fast server.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"runtime"
	"syscall"
	"time"
)

const timeLimit = 10 * time.Second

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
	rate := flag.Float64("rate", 0, "calls a second; 0: as many as go")
	atOnce := flag.Int("at-once", 20_000, "calls under way at most")
	seconds := flag.Float64("seconds", 1, "how long")
	flag.Parse()
	// One for the pacer, which sleeps in the kernel: Go's own timers are coarse.
	runtime.GOMAXPROCS(2)

	messages, err := read(*file)
	if err != nil {
		log.Fatal(err)
	}
	calls, err := connectAll(*address, *method, *atOnce, messages[0])
	if err != nil {
		log.Fatal("the first calls: ", err)
	}
	start := time.Now()
	if *rate > 0 {
		err = atRate(calls, messages, *rate, *seconds)
	} else {
		err = asMany(calls, messages, *seconds)
	}
	err = errors.Join(err, calls.wait(timeLimit))
	found := summary(calls.outcomes(), err)
	found.Seconds = time.Since(start).Seconds()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// first makes a call that only shows that the server answers.
func first(calls *calls, message []byte) error {
	if err := calls.begin(message, time.Now()); err != nil {
		return err
	}
	if err := errors.Join(calls.flush(), calls.wait(timeLimit)); err != nil {
		return err
	}
	if fault := calls.outcomes()[0].fault; fault != "" {
		return errors.New(fault)
	}
	return nil
}

func atRate(calls *pool, messages [][]byte, rate, seconds float64) error {
	runtime.LockOSThread()
	start := time.Now()
	due := func(number int) time.Time {
		return start.Add(time.Duration(float64(number) / rate * 1e9))
	}
	total := max(1, int(rate*seconds))
	for number := 0; number < total; {
		if wait := time.Until(due(number)); wait > 0 {
			pause := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&pause, nil)
		}
		for now := time.Now(); number < total && !due(number).After(now); number++ {
			if err := calls.begin(messages[number%len(messages)], due(number)); err != nil {
				return err
			}
		}
		if err := calls.flush(); err != nil {
			return err
		}
	}
	return nil
}

func asMany(calls *pool, messages [][]byte, seconds float64) error {
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for number := 0; time.Now().Before(end); number++ {
		// It sends what has been begun before it waits for the end of another call.
		if err := calls.begin(messages[number%len(messages)], time.Time{}); err != nil {
			return err
		}
	}
	return calls.flush()
}

func summary(outcomes []outcome, ended error) report {
	found := report{Milliseconds: []float64{}}
	for _, call := range outcomes {
		if call.fault == "" && !call.end.IsZero() {
			found.Milliseconds = append(found.Milliseconds, float64(call.end.Sub(call.due))/1e6)
			continue
		}
		if found.Failed == 0 {
			found.Fault = call.fault
			if call.end.IsZero() {
				found.Fault = ended.Error()
			}
		}
		found.Failed++
	}
	return found
}
