package queuegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// UserInfoAnnotation is the key of the annotation with a pod's owner.
	UserInfoAnnotation = "yunikorn.apache.org/user.info"

	// Kubernetes' limit for all annotations of an object.
	maxUserInfoBytes = 256 << 10
)

// ErrInvalidUserInfo is the error for an invalid user.info annotation.
var ErrInvalidUserInfo = errors.New("queuegate: invalid user.info")

var errTooLongUserInfo = fmt.Errorf("%w: longer than %d bytes", ErrInvalidUserInfo, maxUserInfoBytes)

// UserInfo is the content of a pod's annotation yunikorn.apache.org/user.info: a user with their
// groups, in their original order. Both may be empty.
type UserInfo struct {
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// ParseUserInfo parses the value of the annotation exactly as the scheduler does. "username" is
// accepted in place of "user", as in YuniKorn's documentation. Errors are [ErrInvalidUserInfo].
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
// controller. If the text is too long, the error is [ErrInvalidUserInfo].
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

// A lastValue is a member's last value other than null.
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
