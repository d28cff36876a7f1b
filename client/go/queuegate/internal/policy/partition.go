package policy

// A Naming is a partition's naming rules for queues and users, as numbered in the contract.
type Naming int32

// The supported namings.
const (
	YuniKorn        Naming = 1
	YuniKornAnyUser Naming = 2
	YARN            Naming = 3
	YARNShortNames  Naming = 4
)

// IsKnown returns whether this package supports the naming rules.
func (n Naming) IsKnown() bool { return YuniKorn <= n && n <= YARNShortNames }

// IsYARN returns whether these are the rules of YARN.
func (n Naming) IsYARN() bool { return n >= YARN }

// A Partition contains the queues of a partition, and the compiled chains of their ACLs. Immutable.
// All numbers are validated on construction.
type Partition struct {
	Naming    Naming
	Ambiguous uint32            // the first level of the chain for short names of several queues
	Names     map[string]uint32 // the numbers of users, groups and services
	Listed    []uint32          // numbers of names, ascending in each list of a level
	Levels    []Level
	Paths     []string          // by queue
	Queues    map[string]uint32 // by path
	Sorted    []uint32          // the queues by path
	// Starts are the first levels of the chains, by access and by queue, followed by created queues;
	// UnknownLevel if only the server can decide.
	Starts     [2][]uint32
	Created    map[uint32]map[string]uint32 // created queues, by parent and name
	ShortNames map[string]string
}

// A Level is one level of a chain.
type Level struct {
	Above                         uint32 // the distance to the level above; 0 at the end of a chain
	Depth                         uint32 // the number of levels in the path of its queue
	Users, Groups, Services, Last uint32 // the start of each list in Listed, and the end of the last
	Reason                        Reason // of the decision at the end of a chain
}

// UnknownLevel is the start of a chain that only the server has.
const UnknownLevel = ^uint32(0)
