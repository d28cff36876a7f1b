//go:build unix

package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFolder locks a folder until the returned file is closed. Only one process can hold the lock.
func lockFolder(folder string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is in use by another gate: give each gate its own folder (%w)", folder, err)
	}
	return file, nil
}
