package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// What any server takes in one frame and one stream (RFC 9113, section 6.5.2).
	maxMessage = 16_000
	// How much a server may send before it hears of more room.
	room = 1 << 30
)

// outcome says when a call was due and when it ended, and what went wrong with it.
type outcome struct {
	due, end time.Time
	fault    string
}

// calls are unary calls on one connection. One goroutine begins them, another one reads how they
// end.
type calls struct {
	connection net.Conn
	// What the first goroutine writes, and with what.
	out     bytes.Buffer
	framer  *http2.Framer
	encoder *hpack.Encoder
	encoded bytes.Buffer
	fields  []hpack.HeaderField

	mutex   sync.Mutex
	changed *sync.Cond
	// In the order in which they were begun.
	begun    []outcome
	ended    int
	maxOpen  int
	sendable int
	// Why nothing is read any longer.
	fault error
}

// connect opens a connection for calls of a method, so many of which may be under way at once.
func connect(address, method string, atOnce int) (*calls, error) {
	connection, err := net.DialTimeout("tcp", address, timeLimit)
	if err != nil {
		return nil, err
	}
	c := &calls{
		connection: connection,
		fields: []hpack.HeaderField{
			{Name: ":method", Value: "POST"},
			{Name: ":scheme", Value: "http"},
			{Name: ":path", Value: "/" + method},
			{Name: ":authority", Value: address},
			{Name: "content-type", Value: "application/grpc"},
			{Name: "te", Value: "trailers"},
			{Name: "grpc-timeout", Value: fmt.Sprintf("%dS", int(timeLimit.Seconds()))},
		},
		maxOpen:  atOnce,
		sendable: 65_535, // RFC 9113, section 6.9.2
	}
	c.changed = sync.NewCond(&c.mutex)
	c.framer = http2.NewFramer(&c.out, nil)
	c.encoder = hpack.NewEncoder(&c.encoded)
	c.out.WriteString(http2.ClientPreface)
	_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	_ = c.framer.WriteWindowUpdate(0, room)
	if err := c.flush(); err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func (c *calls) close() { _ = c.connection.Close() }

// begin puts a call behind those that flush will send. If no more may be begun, it sends them and
// waits until others have ended. A call that is not due at any time is due once it may be begun.
func (c *calls) begin(message []byte, due time.Time) error {
	c.mutex.Lock()
	for c.fault == nil && (len(c.begun)-c.ended >= c.maxOpen || c.sendable < len(message)) {
		if c.out.Len() > 0 {
			c.mutex.Unlock()
			if err := c.flush(); err != nil {
				return err
			}
			c.mutex.Lock()
			continue
		}
		c.changed.Wait()
	}
	if due.IsZero() {
		due = time.Now()
	}
	stream := uint32(2*len(c.begun) + 1)
	c.begun = append(c.begun, outcome{due: due})
	c.sendable -= len(message)
	fault := c.fault
	c.mutex.Unlock()

	c.encoded.Reset()
	for _, field := range c.fields {
		_ = c.encoder.WriteField(field)
	}
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: c.encoded.Bytes(), EndHeaders: true,
	})
	_ = c.framer.WriteData(stream, true, message)
	return fault
}

// isFull returns whether a call would have to wait for the end of another one.
func (c *calls) isFull(message []byte) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.begun)-c.ended >= c.maxOpen || c.sendable < len(message)
}

// flush sends what has been begun.
func (c *calls) flush() error {
	defer c.out.Reset()
	_, err := c.connection.Write(c.out.Bytes())
	return err
}

// wait waits for the end of all calls, and not longer than given. It returns what ended the
// connection before.
func (c *calls) wait(most time.Duration) error {
	timer := time.AfterFunc(most, func() { c.fail(errors.New("not answered in time")) })
	defer timer.Stop()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for c.ended < len(c.begun) && c.fault == nil {
		c.changed.Wait()
	}
	return c.fault
}

// outcomes returns how the calls ended so far, in the order in which they were begun.
func (c *calls) outcomes() []outcome {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.begun)
}

// fail ends the connection; the first reason counts.
func (c *calls) fail(reason error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.fault == nil {
		c.fault = reason
	}
	c.changed.Broadcast()
	c.close()
}

func (c *calls) end(stream uint32, fault string) {
	now := time.Now()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if call := &c.begun[stream/2]; call.end.IsZero() {
		call.end, call.fault = now, fault
		c.ended++
		c.changed.Signal()
	}
}

func (c *calls) read() {
	framer := http2.NewFramer(c.connection, bufio.NewReaderSize(c.connection, 64<<10))
	framer.SetReuseFrames()
	var status, message string
	decoder := hpack.NewDecoder(4096, func(field hpack.HeaderField) {
		switch field.Name {
		case ":status", "grpc-status":
			status = field.Value
		case "grpc-message":
			message = field.Value
		}
	})
	unread := 0
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			c.fail(err)
			return
		}
		switch frame := frame.(type) {
		case *http2.HeadersFrame:
			if !frame.HeadersEnded() {
				c.fail(errors.New("headers in several frames"))
				return
			}
			status, message = "none", ""
			if _, err := decoder.Write(frame.HeaderBlockFragment()); err != nil {
				c.fail(err)
				return
			}
			if frame.StreamEnded() {
				fault := ""
				if status != "0" {
					fault = fmt.Sprintf("status %s: %s", status, message)
				}
				c.end(frame.StreamID, fault)
			}
		case *http2.DataFrame:
			if unread += int(frame.Length); unread > room/2 {
				_ = framer.WriteWindowUpdate(0, uint32(unread))
				unread = 0
			}
		case *http2.RSTStreamFrame:
			c.end(frame.StreamID, frame.ErrCode.String())
		case *http2.WindowUpdateFrame:
			if frame.StreamID == 0 {
				c.mutex.Lock()
				c.sendable += int(frame.Increment)
				c.changed.Signal()
				c.mutex.Unlock()
			}
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := c.set(frame); err != nil {
					c.fail(err)
					return
				}
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = framer.WritePing(true, frame.Data)
			}
		case *http2.GoAwayFrame:
			c.fail(fmt.Errorf("connection ended: %s %s", frame.ErrCode, frame.DebugData()))
			return
		}
	}
}

func (c *calls) set(frame *http2.SettingsFrame) error {
	return frame.ForeachSetting(func(setting http2.Setting) error {
		switch setting.ID {
		case http2.SettingMaxConcurrentStreams:
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.maxOpen = min(c.maxOpen, int(setting.Val))
		case http2.SettingInitialWindowSize:
			if setting.Val < maxMessage {
				return fmt.Errorf("streams of %d bytes only", setting.Val)
			}
		case http2.SettingHeaderTableSize:
			if setting.Val < 4096 {
				return fmt.Errorf("a header table of %d bytes only", setting.Val)
			}
		}
		return nil
	})
}
