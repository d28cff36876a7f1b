//go:build unix

package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// setRangeLock is Linux' F_OFD_SETLK: a lock on ranges, the only kind that gates in Java use, which ends
// with the file rather than when the process closes another file of the same path.
const setRangeLock = 37

// lockFolder locks a folder until the returned file is closed. Only one process can hold the lock.
func lockFolder(folder string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && runtime.GOOS == "linux" { // elsewhere, both kinds of locks conflict
		err = syscall.FcntlFlock(file.Fd(), setRangeLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is in use by another gate: give each gate its own folder (%w)", folder, err)
	}
	return file, nil
}
