package queuegate

import (
	"context"
	"fmt"
	"iter"
	"time"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const maxPageSize = 1_000

// SubjectKind is what an entry of an ACL stands for.
type SubjectKind string

// The kinds of entries.
const (
	// SubjectUnspecified is a kind from a server newer than this client.
	SubjectUnspecified SubjectKind = "unspecified"
	SubjectEveryone    SubjectKind = "everyone"
	SubjectUser        SubjectKind = "user"
	SubjectGroup       SubjectKind = "group"
	// SubjectProxy is every user that a service acts for.
	SubjectProxy SubjectKind = "proxy"
)

// A UserListing asks which users may use a queue.
type UserListing struct {
	// Queue is the full path of the queue, for example root.a.b. Required.
	Queue string
	// Partition and Access are as in [Check].
	Partition string
	Access    Access
	// PageSize is the number of users on a page, at most 1 000. 0: the server's default.
	PageSize int
}

// An AccessGrant is an entry of an ACL that grants access.
type AccessGrant struct {
	// Queue is the path of the queue; empty for the administrators of the cluster, and while ACLs
	// are disabled.
	Queue string
	// ACL is the kind of ACL of the queue; empty while ACLs are disabled.
	ACL Access
	// Kind is what the entry stands for.
	Kind SubjectKind
	// Name is the user, group or service; * for everyone.
	Name string
	// Nested are the groups between, if the group Name contains the user through others: from the
	// one next to Name to the one that lists the user.
	Nested []string
}

// A UsableQueue is a queue that a user may use.
type UsableQueue struct {
	// Queue is the full path of the queue.
	Queue string
	// Via is the entry that decides a check.
	Via AccessGrant
}

// A ListedUser is a user who may use a queue.
type ListedUser struct {
	User string
	// Via are the entries that grant access, at most 10; the first one decides a check.
	Via []AccessGrant
	// Further is how many further entries grant access.
	Further int
	// Confirmed is true if the server has just decided a check of this user, and allowed it.
	Confirmed bool
	// Detail is why the user is not confirmed, for people.
	Detail string
}

// An UnexpandedGroup is a group whose members are not all known.
type UnexpandedGroup struct {
	Grant AccessGrant
	// Detail is why, for people.
	Detail string
}

// A UserPage is a page of the users of a queue.
type UserPage struct {
	// Users are sorted by name; there are none if Everyone is true.
	Users []ListedUser
	// Everyone is true if everyone may use the queue, because of EveryoneVia.
	Everyone    bool
	EveryoneVia AccessGrant
	// Complete is true if the pages list each user whom a check would allow. Incomplete says why
	// they do not, and UnexpandedGroups which groups have members that are not known.
	Complete         bool
	Incomplete       []string
	UnexpandedGroups []UnexpandedGroup
	// Proxies are the services that are granted access for every user they act for.
	Proxies []AccessGrant
	// GroupsMayBeAsserted is true if callers may assert groups: they may obtain access for users
	// who are not listed.
	GroupsMayBeAsserted bool
	// DirectoryAsOf is when the members of groups were read; zero if no group was expanded.
	DirectoryAsOf  time.Time
	PolicyRevision uint64
	// EvaluatedQueue is the nearest existing ancestor of a queue that does not exist.
	EvaluatedQueue string
}

// ListUsers lists the users who may use a queue, page by page. The server expands the groups in
// the ACLs of the queue, and decides a check of each user on a page.
//
// Look at Complete: if it is false, users are missing. A policy that changes between two pages is
// an [ErrInvalidArgument]: start again. An error ends the pages. Without a deadline in the context
// each page takes up to 30 s.
func (c *Client) ListUsers(ctx context.Context, listing UserListing) iter.Seq2[UserPage, error] {
	return func(yield func(UserPage, error) bool) {
		request, err := listing.request()
		for err == nil {
			var response *queuegatev1.ListUsersResponse
			if response, err = c.usersPage(ctx, request); err != nil {
				break
			}
			token := response.GetNextPageToken()
			if !yield(userPageOf(response), nil) || token == "" {
				return
			}
			if token == request.PageToken {
				err = contractViolated("the server returned the same page token twice")
			}
			request.PageToken = token
		}
		yield(UserPage{}, err)
	}
}

func (c *Client) usersPage(
	ctx context.Context, request *queuegatev1.ListUsersRequest,
) (*queuegatev1.ListUsersResponse, error) {
	ctx, cancel := limited(ctx, policyTimeout)
	defer cancel()
	return ask(ctx, c, c.access.ListUsers, request)
}

func (listing *UserListing) request() (*queuegatev1.ListUsersRequest, error) {
	faults := appendFault(nil, "queue", listing.Queue, required)
	faults = appendFault(faults, "partition", listing.Partition, optional)
	if listing.Access.number() == queuegatev1.AccessType_ACCESS_TYPE_UNSPECIFIED {
		faults = append(faults, Violation{
			"access", fmt.Sprintf(`must be "submit" or "admin", not %q`, listing.Access),
		})
	}
	if listing.PageSize < 0 || listing.PageSize > maxPageSize {
		faults = append(faults, Violation{
			"page_size", fmt.Sprintf("must be from 0 to %d, not %d", maxPageSize, listing.PageSize),
		})
	}
	if faults != nil {
		return nil, invalid(faults...)
	}
	return &queuegatev1.ListUsersRequest{
		Queue:     listing.Queue,
		Partition: listing.Partition,
		Access:    listing.Access.number(),
		PageSize:  int32(listing.PageSize),
	}, nil
}

func userPageOf(response *queuegatev1.ListUsersResponse) UserPage {
	page := UserPage{
		Everyone:            response.GetEveryone(),
		Complete:            response.GetComplete(),
		Incomplete:          response.GetIncomplete(),
		Proxies:             grantsOf(response.GetProxies()),
		GroupsMayBeAsserted: response.GetGroupsMayBeAsserted(),
		DirectoryAsOf:       moment(response.GetDirectoryAsOf()),
		PolicyRevision:      response.GetPolicyRevision(),
		EvaluatedQueue:      response.GetEvaluatedQueue(),
	}
	if page.Everyone {
		page.EveryoneVia = grantOf(response.GetEveryoneVia())
	}
	for _, user := range response.GetUsers() {
		page.Users = append(page.Users, ListedUser{
			User:      user.GetUser(),
			Via:       grantsOf(user.GetVia()),
			Further:   int(user.GetFurther()),
			Confirmed: user.GetConfirmed(),
			Detail:    user.GetDetail(),
		})
	}
	for _, group := range response.GetUnexpandedGroups() {
		page.UnexpandedGroups = append(page.UnexpandedGroups, UnexpandedGroup{
			Grant: grantOf(group.GetGrant()), Detail: group.GetDetail(),
		})
	}
	return page
}

func grantsOf(given []*queuegatev1.AccessGrant) []AccessGrant {
	var grants []AccessGrant
	for _, each := range given {
		grants = append(grants, grantOf(each))
	}
	return grants
}

func grantOf(given *queuegatev1.AccessGrant) AccessGrant {
	return AccessGrant{
		Queue:  given.GetQueue(),
		ACL:    accessOf(given.GetAcl()),
		Kind:   subjectKinds.of(int32(given.GetKind())),
		Name:   given.GetName(),
		Nested: given.GetNested(),
	}
}

var subjectKinds = newEnumNames[SubjectKind](queuegatev1.SubjectKind_name)
