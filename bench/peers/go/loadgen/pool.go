package main

import (
	"errors"
	"time"
)

// streams is the number of concurrent calls on a connection. Servers limit it: queuegate allows 16.
const streams = 16

// pool makes calls over several connections in turn.
type pool struct {
	connections []*calls
	next        int
}

// connectAll opens the connections that atOnce concurrent calls need, but at most 64 connections, and
// makes one call on each. Those calls show that the server answers, and are not part of the outcomes.
func connectAll(address, method string, atOnce int, message []byte) (*pool, error) {
	p := &pool{}
	for range min((atOnce+streams-1)/streams, 64) {
		c, err := connect(address, method, streams)
		if err != nil {
			return nil, err
		}
		if err := first(c, message); err != nil {
			return nil, err
		}
		p.connections = append(p.connections, c)
	}
	return p, nil
}

// begin prepares a call, which flush sends. If the next connection is full, it waits for that
// connection, after sending all prepared calls.
func (p *pool) begin(message []byte, due time.Time) error {
	c := p.connections[p.next]
	p.next = (p.next + 1) % len(p.connections)
	if c.isFull(message) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return c.begin(message, due)
}

func (p *pool) flush() error {
	for _, c := range p.connections {
		if c.out.Len() > 0 {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait waits until all calls have ended, at most until the given time has passed. It returns the
// errors that ended connections early.
func (p *pool) wait(most time.Duration) error {
	end := time.Now().Add(most)
	var errs []error
	for _, c := range p.connections {
		errs = append(errs, c.wait(time.Until(end)))
	}
	return errors.Join(errs...)
}

func (p *pool) outcomes() []outcome {
	var all []outcome
	for _, c := range p.connections {
		all = append(all, c.outcomes()[1:]...)
	}
	return all
}
