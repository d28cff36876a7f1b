package gate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protodelim"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// maxOutboxBytes is the maximum size of all files in the folder. Beyond it, checks go to the server.
	maxOutboxBytes  = 64 << 20
	maxSegmentBytes = 256 << 10

	segmentSuffix = ".decisions"
	damagedSuffix = ".damaged"
	rejectedName  = "rejected"
)

// An Outbox stores decisions in a folder until the server's audit log has them, even if the process
// exits. A decision is written to the newest segment before it is returned, so it is lost only with
// the machine or its disk.
type Outbox struct {
	folder string
	lock   *os.File // nil once closed

	mutex  sync.Mutex
	counts OutboxCounts
	sealed []segment
	newest segment
	file   *os.File     // the newest segment's file; nil before its first decision
	record bytes.Buffer // reused for each decision
	fault  string       // why decisions cannot be stored; empty if they can
}

// OutboxCounts is documented in package queuegate.
type OutboxCounts struct {
	WaitingBytes                          int64
	Confirmed, NotKept, Rejected, Damaged uint64
}

// OpenOutbox opens a folder, creating it if missing. Only one outbox can use it.
func OpenOutbox(folder string) (*Outbox, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return nil, err
	}
	o := &Outbox{folder: folder, lock: lock}
	if err := o.load(); err != nil {
		lock.Close()
		return nil, err
	}
	return o, nil
}

// load finds the segments of earlier processes.
func (o *Outbox) load() error {
	files, err := os.ReadDir(o.folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return err
		}
		o.counts.WaitingBytes += info.Size()
		digits, isSegment := strings.CutSuffix(file.Name(), segmentSuffix)
		number, err := strconv.ParseUint(digits, 10, 63)
		if !isSegment || err != nil {
			continue
		}
		path := filepath.Join(o.folder, file.Name())
		o.sealed = append(o.sealed, segment{number: number, path: path, size: info.Size()})
	}
	slices.SortFunc(o.sealed, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	o.begin(1)
	if len(o.sealed) > 0 {
		o.begin(o.sealed[len(o.sealed)-1].number + 1)
	}
	return nil
}

// begin starts a segment. Its file is created when its first decision is stored.
func (o *Outbox) begin(number uint64) {
	path := filepath.Join(o.folder, fmt.Sprintf("%020d", number)+segmentSuffix)
	o.newest = segment{number: number, path: path}
}

// Counts returns the current counts.
func (o *Outbox) Counts() OutboxCounts {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.counts
}

// add stores a decision, and returns whether it succeeded. If not, the decision must not be used.
func (o *Outbox) add(question *Question, partition string, answer Answer) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.lock == nil {
		return false
	}
	err := o.write(localDecision(question, partition, answer))
	if err != nil {
		o.counts.NotKept++
	}
	o.logFault(err)
	return err == nil
}

func (o *Outbox) write(decision *queuegatev1.LocalDecision) error {
	record := &o.record
	record.Reset()
	if _, err := protodelim.MarshalTo(record, decision); err != nil {
		return err
	}
	if o.counts.WaitingBytes+int64(record.Len()) > maxOutboxBytes {
		return fmt.Errorf("more than %d bytes are waiting", maxOutboxBytes)
	}
	if o.file == nil {
		file, err := os.OpenFile(o.newest.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			o.begin(o.newest.number + 1)
		}
		if err != nil {
			return err
		}
		o.file = file
	}
	if _, err := o.file.WriteAt(record.Bytes(), o.newest.size); err != nil {
		if o.file.Truncate(o.newest.size) != nil {
			o.seal() // nothing may follow a partial decision
		}
		return err
	}
	o.counts.WaitingBytes += int64(record.Len())
	o.newest.size += int64(record.Len())
	if o.newest.size >= maxSegmentBytes {
		o.seal()
	}
	return nil
}

// logFault logs a change in whether decisions can be stored.
func (o *Outbox) logFault(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	switch {
	case fault == o.fault:
	case err == nil:
		slog.Warn("a gate's outbox stores decisions again", "outbox", o.folder)
	default:
		slog.Warn("a gate's outbox cannot store decisions; checks go to the server", "outbox", o.folder, "error", err)
	}
	o.fault = fault
}

// oldest returns the decisions of the oldest nonempty segment; none if the outbox is empty.
func (o *Outbox) oldest() []*queuegatev1.LocalDecision {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for o.lock != nil && (len(o.sealed) > 0 || o.newest.size > 0) {
		if len(o.sealed) == 0 {
			o.seal()
		}
		decisions, err := readSegment(o.sealed[0].path)
		if err != nil {
			o.keepCopy(o.sealed[0], len(decisions), err)
		}
		if len(decisions) > 0 {
			return decisions
		}
		o.remove()
	}
	return nil
}

// removeOldest removes the oldest segment after its decisions were reported.
func (o *Outbox) removeOldest() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.remove()
}

// confirm counts decisions confirmed by the server.
func (o *Outbox) confirm(decisions int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.counts.Confirmed += uint64(decisions)
}

// Close releases the folder, leaving unreported decisions to the next outbox that uses it.
func (o *Outbox) Close() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.file != nil {
		o.seal()
	}
	if o.lock != nil {
		o.lock.Close()
		o.lock = nil
	}
}

// seal closes the newest segment.
func (o *Outbox) seal() {
	o.file.Close()
	o.file = nil
	o.sealed = append(o.sealed, o.newest)
	o.begin(o.newest.number + 1)
}

// keepCopy keeps a copy of a damaged segment for inspection.
func (o *Outbox) keepCopy(damaged segment, readable int, fault error) {
	kept := strings.TrimSuffix(damaged.path, segmentSuffix) + damagedSuffix
	err := os.Link(damaged.path, kept)
	if err == nil {
		o.counts.WaitingBytes += damaged.size
	}
	if !errors.Is(err, fs.ErrExist) {
		o.counts.Damaged++
		slog.Error("a file in a gate's outbox is damaged; a copy is kept for inspection",
			"file", damaged.path, "copy", kept, "copying", err, "readable decisions", readable, "error", fault)
	}
}

// reject sets aside decisions rejected by the server. fault describes the first decision's
// fault. The decisions are logged together, since a server may reject a thousand at once.
func (o *Outbox) reject(decisions []*queuegatev1.LocalDecision, fault string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.counts.Rejected += uint64(len(decisions))
	path := filepath.Join(o.folder, rejectedName)
	var records bytes.Buffer
	var err error
	for _, each := range decisions {
		if err == nil {
			_, err = protodelim.MarshalTo(&records, each)
		}
	}
	if err == nil {
		err = appendFile(path, records.Bytes())
	}
	slog.Error("the server rejected a gate's decisions; they are set aside", "decisions", len(decisions),
		"file", path, "fault", textToLog(fault), "first", decisions[0], "error", err)
	if err == nil {
		o.counts.WaitingBytes += int64(records.Len())
		return
	}
	for _, each := range decisions {
		slog.Error("a rejected decision is recorded only in this log", "decision", each)
	}
}

func appendFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

func (o *Outbox) remove() {
	oldest := o.sealed[0]
	o.sealed = o.sealed[1:]
	if err := os.Remove(oldest.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Error("cannot remove a file from a gate's outbox; the next gate will report it again",
			"error", err)
		return
	}
	o.counts.WaitingBytes -= oldest.size
}
