package policy

// A Naming is how a partition names its queues and users, as the contract numbers it.
type Naming int32

// The namings that this package knows.
const (
	YuniKorn        Naming = 1
	YuniKornAnyUser Naming = 2
	YARN            Naming = 3
	YARNShortNames  Naming = 4
)

// IsKnown returns whether this package can decide in a partition that names its queues so.
func (n Naming) IsKnown() bool { return YuniKorn <= n && n <= YARNShortNames }

func (n Naming) isYARN() bool { return n >= YARN }

// A Partition has the queues of a partition and the compiled chains of their ACLs. Immutable. Its
// maker has checked that every number refers to something.
type Partition struct {
	Naming    Naming
	Ambiguous uint32            // the level that decides about a short name of several queues
	Names     map[string]uint32 // the numbers of users, groups and services
	Listed    []uint32          // numbers of names; those of a level in each list ascend
	Levels    []Level
	Paths     []string          // by queue
	Queues    map[string]uint32 // by path
	Sorted    []uint32          // the queues by path
	// Starts are, by access and then by queue, and after these by queue that will be created, the levels
	// at which the chains begin; UnknownLevel if only the server can decide.
	Starts     [2][]uint32
	Created    map[uint32]map[string]uint32 // queues that will be created, by their parents and names
	ShortNames map[string]string
}

// A Level is one level of a chain.
type Level struct {
	Above                         uint32 // the distance back; 0: an end
	Depth                         uint32 // the levels in the path of its queue
	Users, Groups, Services, Last uint32 // where these begin in Listed, and where the services end
	Reason                        Reason // of an end
}

// UnknownLevel is the beginning of a chain that only the server has.
const UnknownLevel = ^uint32(0)
