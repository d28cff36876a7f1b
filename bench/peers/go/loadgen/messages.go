package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// read returns the messages of a file, each framed as gRPC sends it.
func read(name string) ([][]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var messages [][]byte
	for reader := bufio.NewReader(file); ; {
		size, err := binary.ReadUvarint(reader)
		if errors.Is(err, io.EOF) && len(messages) > 0 {
			return messages, nil
		}
		if err != nil {
			return nil, err
		}
		if size > maxMessage {
			return nil, fmt.Errorf("a message of %d bytes; the most is %d", size, maxMessage)
		}
		framed := make([]byte, 5+size)
		binary.BigEndian.PutUint32(framed[1:], uint32(size))
		if _, err := io.ReadFull(reader, framed[5:]); err != nil {
			return nil, err
		}
		messages = append(messages, framed)
	}
}
