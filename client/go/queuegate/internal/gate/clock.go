package gate

import (
	"sync/atomic"
	"time"
)

const (
	// maxStep is by how much the wall clock may move without the monotonic one before the boot clock
	// is read again. It also bounds the error of the clock.
	maxStep = time.Millisecond
	// maxReadingAge is how long a reading of the boot clock is used.
	maxReadingAge = time.Second
)

// A bootClock tells the time since the machine was started, like CLOCK_BOOTTIME: a lease must not
// outlive the suspension of the machine, during which Go's monotonic clock stops.
//
// Reading the boot clock is a system call, which costs more than a decision. A suspension moves the
// wall clock by as much as the boot clock, so that clock, which is cheap, says when to read.
type bootClock struct {
	cheap func() (wall, monotonic time.Duration)
	boot  func() (time.Duration, bool) // false if the system has no such clock
	last  atomic.Pointer[reading]
}

// A reading of all clocks at the same time.
type reading struct{ wall, monotonic, boot time.Duration }

// newClock returns the clock of leases. Where the system has no boot clock, it is the monotonic one.
func newClock() func() time.Duration {
	if _, has := bootTime(); !has {
		start := time.Now()
		return func() time.Duration { return time.Since(start) }
	}
	start := time.Now()
	clock := &bootClock{boot: bootTime, cheap: func() (wall, monotonic time.Duration) {
		now := time.Now()
		return time.Duration(now.UnixNano()), now.Sub(start)
	}}
	return clock.now
}

func (c *bootClock) now() time.Duration {
	wall, monotonic := c.cheap()
	if last := c.last.Load(); last != nil {
		passed := monotonic - last.monotonic
		step := wall - last.wall - passed
		if passed < maxReadingAge && -maxStep < step && step < maxStep {
			return last.boot + passed
		}
	}
	boot, has := c.boot()
	if !has {
		return forever // no lease lasts that long
	}
	// Only clocks that were read together can be compared: this process may have been stopped.
	if _, after := c.cheap(); after-monotonic < maxStep {
		c.last.Store(&reading{wall, monotonic, boot})
	}
	return boot
}
