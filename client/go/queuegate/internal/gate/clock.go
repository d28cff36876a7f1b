package gate

import (
	"sync/atomic"
	"time"
)

const (
	// maxStep is the drift between the wall clock and the monotonic clock after which the boot clock
	// is read again. It bounds the error of the clock.
	maxStep = time.Millisecond
	// maxReadingAge is how long a reading of the boot clock is valid.
	maxReadingAge = time.Second
)

// A bootClock returns the time since the machine was started, like CLOCK_BOOTTIME. A lease must expire
// while the machine is suspended, during which Go's monotonic clock stops.
//
// Reading the boot clock takes a system call, which costs more than a decision. After a suspension, the
// cheap wall clock has advanced as far as the boot clock, which shows that a reading is due.
type bootClock struct {
	cheap func() (wall, monotonic time.Duration)
	boot  func() (time.Duration, bool) // false if the system has no such clock
	last  atomic.Pointer[reading]
}

// A reading is the time of all clocks at one moment.
type reading struct{ wall, monotonic, boot time.Duration }

// newClock returns the clock for leases: the boot clock if the system has one, or the monotonic clock.
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
		return forever // every lease has expired
	}
	// Only clocks read at the same time are comparable, since this process may have been suspended.
	if _, after := c.cheap(); after-monotonic < maxStep {
		c.last.Store(&reading{wall, monotonic, boot})
	}
	return boot
}
