package gate

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since the machine was started, including time suspended.
func bootTime() (time.Duration, bool) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, false
	}
	return time.Duration(now.Nano()), true
}
