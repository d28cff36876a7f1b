package gate

import (
	"slices"
	"strings"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A testQueue is a queue with ACLs of the form `users groups`, with commas, or `*`; ~name is a service.
type testQueue struct{ path, submit, admin string }

// A compiler writes the tables of a policy with plain ACLs, as a server does.
type compiler struct {
	part    *queuegatev1.PolicyPart
	names   map[string]uint32
	starts  map[string][2]uint32 // by path
	numbers map[string]int       // queue numbers by path
	isOpen  []bool               // by level: whether its chain allows everyone by default
}

// compile returns the tables of some queues, parents first. A missing root is added.
func compile(queues ...testQueue) *queuegatev1.PolicyPart {
	return newCompiler(queuegatev1.Reason_REASON_NO_MATCH).add(queues...).part
}

// newCompiler creates a compiler, given the reason of the decision above the root.
func newCompiler(aboveRoot queuegatev1.Reason) *compiler {
	c := &compiler{
		part: &queuegatev1.PolicyPart{
			Naming: queuegatev1.QueueNaming_QUEUE_NAMING_YUNIKORN, Levels: &queuegatev1.LevelColumns{},
			ConfiguredQueues: &queuegatev1.QueueColumns{}, CreatedQueues: &queuegatev1.CreatedQueueColumns{},
		},
		names: map[string]uint32{}, numbers: map[string]int{},
	}
	c.level(0, 0, nil, nil, nil)
	c.part.Levels.EndReasons = append(c.part.Levels.EndReasons, aboveRoot)
	c.isOpen[0] = aboveRoot != queuegatev1.Reason_REASON_NO_MATCH
	c.starts = map[string][2]uint32{"": {0, 0}}
	return c
}

func (c *compiler) add(queues ...testQueue) *compiler {
	columns := c.part.ConfiguredQueues
	for _, each := range queues {
		if each.path != policy.Root && len(c.numbers) == 0 {
			c.add(testQueue{policy.Root, "", ""})
		}
		parent, name := "", each.path
		if at := strings.LastIndexByte(each.path, '.'); at >= 0 {
			parent, name = each.path[:at], each.path[at+1:]
		}
		distance := 0
		if each.path != policy.Root {
			distance = len(c.numbers) - c.numbers[parent]
		}
		c.numbers[each.path] = len(c.numbers)
		c.starts[each.path] = c.extend(c.starts[parent], each)
		columns.Name, columns.Parent = append(columns.Name, name), append(columns.Parent, uint32(distance))
		columns.Submit = append(columns.Submit, c.starts[each.path][policy.Submit])
		columns.Admin = append(columns.Admin, c.starts[each.path][policy.Admin])
	}
	return c
}

// create adds a created queue below a queue or another created queue.
func (c *compiler) create(path, submit, admin string) *compiler {
	columns, at := c.part.CreatedQueues, strings.LastIndexByte(path, '.')
	number := len(c.part.ConfiguredQueues.Name) + len(columns.Name)
	starts := c.extend(c.starts[path[:at]], testQueue{path, submit, admin})
	c.starts[path] = starts
	columns.Name = append(columns.Name, path[at+1:])
	columns.Parent = append(columns.Parent, uint32(number-c.numbers[path[:at]]))
	columns.Submit = append(columns.Submit, starts[policy.Submit]+1)
	columns.Admin = append(columns.Admin, starts[policy.Admin]+1)
	c.numbers[path] = number
	return c
}

func (c *compiler) extend(above [2]uint32, queue testQueue) (starts [2]uint32) {
	for access, acls := range [2][]string{policy.Submit: {queue.submit, queue.admin}, policy.Admin: {queue.admin}} {
		starts[access] = c.chain(above[access], uint32(strings.Count(queue.path, ".")+1), acls...)
	}
	return starts
}

func (c *compiler) chain(above, depth uint32, acls ...string) uint32 {
	if slices.Contains(acls, "*") {
		c.part.Levels.EndReasons = append(c.part.Levels.EndReasons, queuegatev1.Reason_REASON_WILDCARD)
		start := c.level(0, depth, nil, nil, nil)
		c.isOpen[start] = true
		return start
	}
	var users, groups, services []string
	for _, acl := range acls {
		first, second, _ := strings.Cut(acl, " ")
		for _, name := range strings.FieldsFunc(first, isComma) {
			if service, isService := strings.CutPrefix(name, "~"); isService {
				services = append(services, service)
			} else {
				users = append(users, name)
			}
		}
		groups = append(groups, strings.FieldsFunc(second, isComma)...)
	}
	if c.isOpen[above] {
		groups, services = nil, nil
	}
	if len(users)+len(groups)+len(services) == 0 {
		return above
	}
	return c.level(uint32(len(c.isOpen))-above, depth, users, groups, services)
}

func isComma(sign rune) bool { return sign == ',' }

func (c *compiler) level(distance, depth uint32, lists ...[]string) uint32 {
	number, columns := uint32(len(c.isOpen)), c.part.Levels
	columns.Above, columns.Depth = append(columns.Above, distance), append(columns.Depth, depth)
	for i, column := range []*[]uint32{&columns.Users, &columns.Groups, &columns.Services} {
		sorted := slices.Compact(slices.Sorted(slices.Values(lists[i])))
		*column = append(*column, uint32(len(sorted)))
		for _, name := range sorted {
			if _, isKnown := c.names[name]; !isKnown {
				c.names[name] = uint32(len(c.part.Names))
				c.part.Names = append(c.part.Names, name)
			}
			columns.Listed = append(columns.Listed, c.names[name])
		}
	}
	c.isOpen = append(c.isOpen, distance > 0 && c.isOpen[number-distance])
	return number
}

// cut splits the tables of a policy into parts with a given number of queues.
func cut(whole *queuegatev1.PolicyPart, queues int) (parts []*queuegatev1.PolicyPart) {
	columns := whole.ConfiguredQueues
	for start := 0; start < len(columns.Name); start += queues {
		end := min(start+queues, len(columns.Name))
		parts = append(parts, &queuegatev1.PolicyPart{
			Partition: whole.Partition,
			ConfiguredQueues: &queuegatev1.QueueColumns{
				Name: columns.Name[start:end], Parent: columns.Parent[start:end],
				Submit: columns.Submit[start:end], Admin: columns.Admin[start:end],
			},
		})
	}
	first, last := parts[0], parts[len(parts)-1]
	first.First, first.Naming, first.Names, first.Levels = true, whole.Naming, whole.Names, whole.Levels
	last.Last, last.CreatedQueues = true, whole.CreatedQueues
	return parts
}
