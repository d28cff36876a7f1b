//go:build !unix

package gate

import (
	"errors"
	"os"
)

func lockFolder(string) (*os.File, error) {
	return nil, errors.New("decisions can be stored only on Unix")
}
