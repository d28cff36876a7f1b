//go:build !linux

package gate

import "time"

func bootTime() (time.Duration, bool) { return 0, false }
