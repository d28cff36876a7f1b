package main

import (
	"fmt"
	"go/format"
	"strings"
)

// file is a file of yunikorn-core that changes.
type file struct {
	path  string
	edits []edit
}

// edit replaces code of a file.
type edit struct {
	old string
	// times is how often old occurs in the file. In a file of a version that this program does not
	// know, it may occur more or less often.
	times int
	new   string
}

// files lists all that changes in files of yunikorn-core. The functions that the new code calls
// are in the added files.
var files = []file{
	// The added methods take the names of these two. A queue does not know its partition, and
	// queuegate has to.
	{"pkg/scheduler/objects/queue.go", []edit{
		{
			"func (sq *Queue) CheckSubmitAccess(user security.UserGroup) bool {", 1,
			"func (sq *Queue) unusedCheckSubmitAccess(user security.UserGroup) bool {",
		},
		{
			"func (sq *Queue) CheckAdminAccess(user security.UserGroup) bool {", 1,
			"func (sq *Queue) unusedCheckAdminAccess(user security.UserGroup) bool {",
		},
		{
			"type Queue struct {\n", 1,
			"type Queue struct {\n\tpartition string // of a root queue\n\n",
		},
	}},
	{"pkg/scheduler/partition.go", []edit{
		{
			"\tif err = pc.addQueue(queueConf.Queues, pc.root, silence); err != nil {\n", 1,
			"\tpc.root.SetPartition(pc.Name)\n\tif err = pc.addQueue(queueConf.Queues, pc.root, silence); err != nil {\n",
		},
		{
			"\tif !queue.CheckSubmitAccess(user) {\n", 1,
			"\tif granted, err := queue.AskSubmitAccess(user); err != nil {\n\t\treturn nil, err\n\t} else if !granted {\n",
		},
	}},
	// Without an answer, placement does not go on to the next rule.
	{"pkg/scheduler/placement/placement.go", []edit{
		{
			"if !queue.CheckSubmitAccess(app.GetUser()) {\n", 2,
			"if granted, err := queue.AskSubmitAccess(app.GetUser()); err != nil {\n" +
				"return endWithoutAnswer(app, err)\n} else if !granted {\n",
		},
	}},
}

// rewrite returns the text of the file with its edits.
func (f file) rewrite(text string) ([]byte, error) {
	for _, edit := range f.edits {
		if times := strings.Count(text, edit.old); times != edit.times {
			return nil, fmt.Errorf("%q occurs %d times and not %d: this version of yunikorn-core is not supported",
				edit.old, times, edit.times)
		}
		text = strings.ReplaceAll(text, edit.old, edit.new)
	}
	return format.Source([]byte(text))
}
