package queuegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// UserInfoAnnotation is the key of the annotation of a pod that names its owner.
	UserInfoAnnotation = "yunikorn.apache.org/user.info"

	// The limit of Kubernetes for all annotations of an object.
	maxUserInfoBytes = 256 << 10
)

// ErrInvalidUserInfo means that a text is not a valid user.info annotation.
var ErrInvalidUserInfo = errors.New("queuegate: invalid user.info")

var errTooLongUserInfo = fmt.Errorf("%w: longer than %d bytes", ErrInvalidUserInfo, maxUserInfoBytes)

// UserInfo is a user and their groups: the annotation yunikorn.apache.org/user.info of a pod. Both
// may be empty; groups keep their order and repetitions.
type UserInfo struct {
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// ParseUserInfo parses the value of the annotation exactly as the scheduler does. Without user,
// the name may be given as username, as in the examples of the scheduler's documentation. An error
// is an [ErrInvalidUserInfo].
func ParseUserInfo(text string) (UserInfo, error) {
	if len(text) > maxUserInfoBytes {
		return UserInfo{}, errTooLongUserInfo
	}
	var info UserInfo
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return UserInfo{}, invalidUserInfo(err)
	}
	if info.User != "" {
		return info, nil
	}
	var names struct{ User, Username lastValue }
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return UserInfo{}, invalidUserInfo(err)
	}
	if names.User == nil && names.Username != nil {
		if err := json.Unmarshal(names.Username, &info.User); err != nil {
			return UserInfo{}, fmt.Errorf(`%w: "username" must be a string`, ErrInvalidUserInfo)
		}
	}
	return info, nil
}

// Annotation returns the value of the annotation, as written by the scheduler's admission
// controller. An error is an [ErrInvalidUserInfo]: the text is too long.
func (info UserInfo) Annotation() (string, error) {
	text, err := json.Marshal(info)
	if err != nil {
		return "", invalidUserInfo(err)
	}
	if len(text) > maxUserInfoBytes {
		return "", errTooLongUserInfo
	}
	return string(text), nil
}

// A lastValue is the last value of a member that is not null.
type lastValue []byte

// UnmarshalJSON keeps the value, unless it is null.
func (v *lastValue) UnmarshalJSON(text []byte) error {
	if string(text) != "null" {
		*v = bytes.Clone(text)
	}
	return nil
}

func invalidUserInfo(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return fmt.Errorf("%w: not valid JSON: %w", ErrInvalidUserInfo, err)
	case wrong.Field == "":
		return fmt.Errorf(`%w: must be a JSON object such as {"user":"alice","groups":["dev"]}`, ErrInvalidUserInfo)
	case wrong.Field == "user":
		return fmt.Errorf(`%w: "user" must be a string`, ErrInvalidUserInfo)
	}
	return fmt.Errorf(`%w: "groups" must be a list of strings`, ErrInvalidUserInfo)
}
