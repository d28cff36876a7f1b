package gate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

var endReasons = map[queuegatev1.Reason]policy.Reason{
	queuegatev1.Reason_REASON_WILDCARD:      policy.Wildcard,
	queuegatev1.Reason_REASON_CLUSTER_ADMIN: policy.ClusterAdmin,
	queuegatev1.Reason_REASON_ACLS_DISABLED: policy.ACLsDisabled,
	queuegatev1.Reason_REASON_NO_MATCH:      policy.NoMatch,
}

// checkRows validates what a part must satisfy without the parts that follow it.
func checkRows(earlier, part *queuegatev1.PolicyPart) error {
	levels, queues, created := part.GetLevels(), part.GetConfiguredQueues(), part.GetCreatedQueues()
	count := uint32(len(earlier.GetLevels().GetAbove()) + len(levels.GetAbove()))
	switch {
	case !haveLength(len(levels.GetAbove()), levels.GetDepth(), levels.GetUsers(), levels.GetGroups(), levels.GetServices()):
		return errors.New("the columns of levels have different lengths")
	case !haveLength(len(queues.GetName()), queues.GetParent(), queues.GetSubmit(), queues.GetAdmin()):
		return errors.New("the columns of queues have different lengths")
	case !haveLength(len(created.GetName()), created.GetParent(), created.GetSubmit(), created.GetAdmin()):
		return errors.New("the columns of created queues have different lengths")
	case !areBelow(uint32(len(earlier.GetNames())+len(part.GetNames())), levels.GetListed()):
		return errors.New("a level lists a name that does not exist")
	case !areBelow(count, queues.GetSubmit(), queues.GetAdmin()), !areBelow(count+1, created.GetSubmit(), created.GetAdmin()):
		return errors.New("a queue refers to a level that does not exist")
	case len(queues.GetName()) > 0 && len(earlier.GetCreatedQueues().GetName()) > 0:
		return errors.New("a queue follows the created queues")
	}
	return nil
}

// readTables validates the tables of a policy, merged from its parts, which checkRows has validated, and
// returns its partition and the size of its paths in bytes. Rows refer to earlier rows by distance, so tables
// cannot contain cycles.
func readTables(sent *queuegatev1.PolicyPart) (*policy.Partition, int, error) {
	p := &policy.Partition{
		Naming: policy.Naming(sent.GetNaming()), Ambiguous: sent.GetAmbiguousLevel(),
		Names: make(map[string]uint32, len(sent.GetNames())), Listed: sent.GetLevels().GetListed(),
	}
	for number, name := range sent.GetNames() {
		p.Names[name] = uint32(number)
	}
	if _, hasEmpty := p.Names[""]; hasEmpty || len(p.Names) != len(sent.GetNames()) {
		return nil, 0, errors.New("a name in an ACL is empty or was sent twice")
	}
	lengths, err := readLevels(p, sent.GetLevels())
	if err != nil {
		return nil, 0, err
	}
	pathBytes, err := readQueues(p, sent.GetConfiguredQueues())
	if err != nil {
		return nil, 0, err
	}
	depths, err := readCreated(p, sent.GetCreatedQueues())
	if err != nil {
		return nil, 0, err
	}
	deepest := slices.Max(depths)
	if p.Ambiguous >= uint32(len(p.Levels)) {
		return nil, 0, errors.New("ambiguous names refer to a level that does not exist")
	}
	if slices.ContainsFunc(p.Levels, func(level policy.Level) bool { return level.Depth > deepest }) {
		return nil, 0, errors.New("a level is deeper than the path of any queue")
	}
	if err := checkChains(p, lengths, depths); err != nil {
		return nil, 0, err
	}
	return p, pathBytes, nil
}

// checkChains validates what makes the gates of all languages decide alike, and bounds the work per
// question. lengths are the numbers of levels above each level, depths the lengths of all paths.
func checkChains(p *policy.Partition, lengths []int, depths []uint32) error {
	grants := make([]bool, len(p.Levels)) // whether the end of the chain grants access
	for i := range p.Levels {
		level := &p.Levels[i]
		above := i - int(level.Above)
		switch {
		case level.Above == 0:
			grants[i] = level.Reason != policy.NoMatch
			if level.Reason == policy.Wildcard && level.Depth == 0 || level.Reason == policy.ClusterAdmin && level.Depth > 0 {
				return errors.New("the reason at the end of a chain does not match its depth")
			}
		case level.Depth < p.Levels[above].Depth:
			return errors.New("a level is deeper than the level below it")
		case grants[above] && level.Groups < level.Last:
			return errors.New("a level lists groups or services, but its chain grants access")
		default:
			grants[i] = grants[above]
		}
		if lengths[i] > 2*int(level.Depth)+1 {
			return errors.New("a chain has more levels than its queue's path allows")
		}
	}
	if p.Levels[p.Ambiguous].Depth > 0 {
		return errors.New("ambiguous names refer to a level of a queue")
	}
	for _, starts := range p.Starts {
		for number, start := range starts {
			if start != policy.UnknownLevel && p.Levels[start].Depth > depths[number] {
				return errors.New("a chain starts deeper than its queue's path")
			}
		}
	}
	return nil
}

// readLevels returns the number of levels above each level.
func readLevels(p *policy.Partition, sent *queuegatev1.LevelColumns) ([]int, error) {
	count := len(sent.GetAbove())
	p.Levels = make([]policy.Level, count)
	lengths, ends := make([]int, count), sent.GetEndReasons()
	first, last := uint64(0), uint64(0)
	for i := range p.Levels {
		groups := last + uint64(sent.Users[i])
		services := groups + uint64(sent.Groups[i])
		first, last = last, services+uint64(sent.Services[i])
		above, reason := sent.Above[i], policy.Reason("")
		switch {
		case last > uint64(len(p.Listed)):
			return nil, errors.New("the number of listed names does not match the levels")
		case uint64(above) > uint64(i):
			return nil, errors.New("a level refers to a level before the first")
		case above > 0:
			lengths[i] = lengths[i-int(above)] + 1
		case last > first:
			return nil, errors.New("the end of a chain lists names")
		case len(ends) == 0 || endReasons[ends[0]] == "":
			return nil, errors.New("a chain's end has an invalid reason")
		default:
			reason, ends = endReasons[ends[0]], ends[1:]
		}
		if lengths[i] >= maxChainLevels {
			return nil, fmt.Errorf("a chain has more than %d levels", maxChainLevels)
		}
		p.Levels[i] = policy.Level{
			Above: above, Depth: sent.Depth[i], Reason: reason,
			Users: uint32(first), Groups: uint32(groups), Services: uint32(services), Last: uint32(last),
		}
		slices.Sort(p.Listed[first:groups]) // sent sorted by name
		slices.Sort(p.Listed[groups:services])
		slices.Sort(p.Listed[services:last])
	}
	if last != uint64(len(p.Listed)) || len(ends) > 0 {
		return nil, errors.New("the number of listed names does not match the levels, or the number of reasons the ends of chains")
	}
	return lengths, nil
}

// readQueues returns the total size of all paths.
func readQueues(p *policy.Partition, sent *queuegatev1.QueueColumns) (pathBytes int, err error) {
	count := len(sent.GetName())
	if count == 0 || sent.Name[0] != policy.Root || sent.Parent[0] != 0 {
		return 0, fmt.Errorf("the first queue is not %q", policy.Root)
	}
	if slices.ContainsFunc(sent.Name, isNoQueueName) {
		return 0, errors.New("a queue name is empty or contains a dot")
	}
	p.Starts = [2][]uint32{policy.Submit: sent.Submit, policy.Admin: sent.Admin}
	p.Paths, p.Queues, p.Sorted = make([]string, count), make(map[string]uint32, count), make([]uint32, count)
	if p.Naming == policy.YARNShortNames {
		p.ShortNames = map[string]string{}
	}
	for i, name := range sent.Name {
		path := name
		if i > 0 {
			if sent.Parent[i] == 0 || uint64(sent.Parent[i]) > uint64(i) {
				return 0, errors.New("a queue refers to a parent that does not exist")
			}
			path = p.Paths[i-int(sent.Parent[i])] + "." + name
		}
		if pathBytes += len(path); len(path) > maxPathBytes || pathBytes > maxPathsBytes {
			return 0, fmt.Errorf("a path has more than %d bytes, or all have more than %d", maxPathBytes, maxPathsBytes)
		}
		p.Paths[i], p.Queues[path], p.Sorted[i] = path, uint32(i), uint32(i)
		if p.ShortNames != nil && name != policy.Root {
			if _, isShared := p.ShortNames[name]; isShared {
				path = name
			}
			p.ShortNames[name] = path
		}
	}
	if len(p.Queues) != count {
		return 0, errors.New("the policy contains a queue twice")
	}
	slices.SortFunc(p.Sorted, func(a, b uint32) int { return cmp.Compare(p.Paths[a], p.Paths[b]) })
	return pathBytes, nil
}

// readCreated returns the number of levels in each path.
func readCreated(p *policy.Partition, sent *queuegatev1.CreatedQueueColumns) ([]uint32, error) {
	first, count := len(p.Paths), len(sent.GetName())
	if slices.ContainsFunc(sent.GetName(), isNoQueueName) {
		return nil, errors.New("a queue name is empty or contains a dot")
	}
	depths, below := make([]uint32, first+count), make([]int, first+count)
	for i, path := range p.Paths {
		depths[i] = uint32(strings.Count(path, ".")) + 1
	}
	p.Created = map[uint32]map[string]uint32{}
	for i, name := range sent.GetName() {
		number, distance := uint32(first+i), sent.Parent[i]
		if distance == 0 || distance > number {
			return nil, errors.New("a created queue refers to a parent that does not exist")
		}
		parent := number - distance
		if p.Created[parent] == nil {
			p.Created[parent] = map[string]uint32{}
		}
		if _, isTwice := p.Created[parent][name]; isTwice {
			return nil, errors.New("the policy contains a created queue twice")
		}
		p.Created[parent][name], depths[number] = number, depths[parent]+1
		if below[number] = below[parent] + 1; below[number] > maxCreatedLevels {
			return nil, fmt.Errorf("a created queue is more than %d levels below a queue", maxCreatedLevels)
		}
		// 0 becomes policy.UnknownLevel.
		p.Starts[policy.Submit] = append(p.Starts[policy.Submit], sent.Submit[i]-1)
		p.Starts[policy.Admin] = append(p.Starts[policy.Admin], sent.Admin[i]-1)
	}
	return depths, nil
}

func haveLength(length int, columns ...[]uint32) bool {
	return !slices.ContainsFunc(columns, func(column []uint32) bool { return len(column) != length })
}

// areBelow returns whether all numbers of the columns are below a limit.
func areBelow(limit uint32, columns ...[]uint32) bool {
	isMissing := func(number uint32) bool { return number >= limit }
	return !slices.ContainsFunc(columns, func(column []uint32) bool { return slices.ContainsFunc(column, isMissing) })
}

func isNoQueueName(name string) bool { return name == "" || strings.Contains(name, ".") }
