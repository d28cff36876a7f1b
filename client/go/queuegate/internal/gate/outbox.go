package gate

import (
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

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// maxOutboxBytes is the limit of all files in the folder; beyond it the server is asked.
	maxOutboxBytes = 64 << 20
	// A segment is as large as one report may be.
	maxSegmentBytes     = 256 << 10
	maxSegmentDecisions = 1_000

	segmentSuffix = ".decisions"
	damagedSuffix = ".damaged"
	rejectedName  = "rejected"
)

// An Outbox keeps decisions in a folder until the server's audit log has them, also over the end of
// the process. Each decision is written to the newest segment before it is answered, so it is lost
// only with the machine or its disk. A segment is reported as a whole, under its number, and deleted
// when that is confirmed.
type Outbox struct {
	folder string
	lock   *os.File // nil once it is closed

	mutex    sync.Mutex
	counts   OutboxCounts
	sealed   []segment
	newest   segment
	file     *os.File // of the newest segment; nil before its first decision
	buffer   []byte
	fault    string                  // why decisions cannot be kept; empty if they can
	reported *queuegatev1.SyncReport // that of the oldest segment; nil if none waits for an answer
}

// OutboxCounts are explained in package queuegate.
type OutboxCounts struct {
	WaitingBytes int64
	Confirmed    uint64
	NotKept      uint64
	Rejected     uint64
	Damaged      uint64
}

// OpenOutbox opens a folder, which is made if it does not exist. Only one outbox may have it.
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

// load finds the segments of processes before this one.
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

// begin begins a segment, whose file is made with its first decision.
func (o *Outbox) begin(number uint64) {
	path := filepath.Join(o.folder, fmt.Sprintf("%020d", number)+segmentSuffix)
	o.newest = segment{number: number, path: path}
}

// Counts says what became of the decisions.
func (o *Outbox) Counts() OutboxCounts {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.counts
}

// add keeps a decision about a partition; false if it cannot be kept, so that it must not be used.
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
	var err error
	if o.buffer, err = appendRecord(o.buffer[:0], decision); err != nil {
		return err
	}
	if o.counts.WaitingBytes+int64(len(o.buffer)) > maxOutboxBytes {
		return fmt.Errorf("more than %d bytes wait", maxOutboxBytes)
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
	if _, err := o.file.WriteAt(o.buffer, o.newest.size); err != nil {
		if o.file.Truncate(o.newest.size) != nil {
			o.seal() // a part of a decision ends a segment
		}
		return err
	}
	o.counts.WaitingBytes += int64(len(o.buffer))
	o.newest.size += int64(len(o.buffer))
	o.newest.decisions++
	if o.newest.size >= maxSegmentBytes || o.newest.decisions >= maxSegmentDecisions {
		o.seal()
	}
	return nil
}

// logFault logs whether decisions can be kept, if that has changed.
func (o *Outbox) logFault(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	switch {
	case fault == o.fault:
	case err == nil:
		slog.Warn("the outbox of a gate keeps decisions again", "outbox", o.folder)
	default:
		slog.Warn("the outbox of a gate keeps no decisions, so the server is asked", "outbox", o.folder, "error", err)
	}
	o.fault = fault
}

// next returns the next report; nil if there is nothing to report, or a report is to be confirmed.
func (o *Outbox) next() *queuegatev1.SyncRequest {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.reported != nil || o.lock == nil {
		return nil
	}
	for len(o.sealed) > 0 || o.newest.size > 0 {
		if len(o.sealed) == 0 {
			o.seal()
		}
		oldest := o.sealed[0]
		decisions, err := readSegment(oldest.path)
		if err != nil {
			o.setAside(oldest, len(decisions), err)
		}
		if len(decisions) > 0 {
			o.reported = &queuegatev1.SyncReport{Id: oldest.number, Decisions: decisions}
			return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Report{Report: o.reported}}
		}
		o.remove()
	}
	return nil
}

// confirmed deletes the decisions of a report; it sets those aside that the server does not accept.
func (o *Outbox) confirmed(answer *queuegatev1.SyncReported) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.reported == nil || o.reported.GetId() != answer.GetId() || o.lock == nil {
		return
	}
	decisions := o.reported.GetDecisions()
	o.counts.Confirmed += uint64(len(decisions))
	for _, refused := range answer.GetRefused() {
		if index := int(refused.GetIndex()); index < len(decisions) {
			o.counts.Confirmed--
			o.reject(decisions[index], refused.GetFault())
		}
	}
	o.reported = nil
	o.remove()
}

// restart reports decisions again that were not confirmed.
func (o *Outbox) restart() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.reported = nil
}

// Close keeps no more decisions; those in the folder are reported by the next outbox that has it.
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

// seal ends the newest segment.
func (o *Outbox) seal() {
	o.file.Close()
	o.file = nil
	o.sealed = append(o.sealed, o.newest)
	o.begin(o.newest.number + 1)
}

// setAside keeps a copy of a damaged segment for people to look at.
func (o *Outbox) setAside(damaged segment, readable int, fault error) {
	kept := strings.TrimSuffix(damaged.path, segmentSuffix) + damagedSuffix
	err := os.Link(damaged.path, kept)
	if err == nil {
		o.counts.WaitingBytes += damaged.size
	}
	if !errors.Is(err, fs.ErrExist) {
		o.counts.Damaged++
		slog.Error("a file of the outbox of a gate is damaged; a copy is kept for you to look at",
			"file", damaged.path, "copy", kept, "copying", err, "readable decisions", readable, "error", fault)
	}
}

// reject sets a decision aside that the server does not accept.
func (o *Outbox) reject(decision *queuegatev1.LocalDecision, fault string) {
	o.counts.Rejected++
	path := filepath.Join(o.folder, rejectedName)
	record, err := appendRecord(nil, decision)
	if err == nil {
		err = appendFile(path, record)
	}
	slog.Error("the server does not accept a decision of a gate, which is set aside",
		"fault", fault, "decision", decision, "file", path, "error", err)
	if err == nil {
		o.counts.WaitingBytes += int64(len(record))
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

// remove removes the oldest segment: its decisions need not be reported any more.
func (o *Outbox) remove() {
	oldest := o.sealed[0]
	o.sealed = o.sealed[1:]
	if err := os.Remove(oldest.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Error("a file of the outbox of a gate cannot be removed; the next gate that uses it reports it again",
			"error", err)
		return
	}
	o.counts.WaitingBytes -= oldest.size
}
