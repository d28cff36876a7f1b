package queuegate

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// The vectors are in the repository, outside the module.
const vectors = "../../../tests/vectors/"

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(vectors + name)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the vectors are only in the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

func expectOwner(t *testing.T, info UserInfo, user string, groups []string) {
	t.Helper()
	if info.User != user || !slices.Equal(info.Groups, groups) {
		t.Errorf("got %+v, want %q and %q", info, user, groups)
	}
}

func TestAnnotationVectors(t *testing.T) {
	type named struct {
		ID           string
		Annotation   string
		Valid        bool
		User         string
		Groups       []string
		Annotations  map[string]string
		Labels       map[string]string
		UserLabelKey string `json:"user_label_key"`
	}
	var all struct {
		Annotations   []named
		PodUser       []named `json:"pod_user"`
		LegacyPodUser []named `json:"legacy_pod_user"`
		Encode        []named
	}
	readVectors(t, "annotation_vectors.json", &all)
	if min(len(all.Annotations), len(all.PodUser), len(all.LegacyPodUser), len(all.Encode)) == 0 {
		t.Fatal("vectors are missing")
	}
	for _, each := range all.Annotations {
		t.Run(each.ID, func(t *testing.T) {
			info, err := ParseUserInfo(each.Annotation)
			if (err == nil) != each.Valid || err != nil && !errors.Is(err, ErrInvalidUserInfo) {
				t.Fatal(err)
			}
			if each.Valid {
				expectOwner(t, info, each.User, each.Groups)
			}
		})
	}
	for _, each := range all.PodUser {
		t.Run(each.ID, func(t *testing.T) {
			expectOwner(t, PodOwner(each.Annotations, each.Labels), each.User, each.Groups)
		})
	}
	for _, each := range all.LegacyPodUser {
		t.Run(each.ID, func(t *testing.T) {
			owner := PodOwner(each.Annotations, each.Labels, LegacyLabel(each.UserLabelKey))
			expectOwner(t, owner, each.User, each.Groups)
		})
	}
	for _, each := range all.Encode {
		t.Run(each.ID, func(t *testing.T) {
			text, err := UserInfo{each.User, each.Groups}.Annotation()
			if text != each.Annotation || err != nil {
				t.Error(text, err)
			}
		})
	}
}

func TestNameOfTheUser(t *testing.T) {
	for text, user := range map[string]string{
		`{"username":"alice"}`:                    "alice",
		`{"Username":"alice","groups":[]}`:        "alice",
		`{"user":"alice","username":"bob"}`:       "alice",
		`{"username":"bob","user":"alice"}`:       "alice",
		`{"user":"alice","username":1}`:           "alice",
		`{"user":"","username":"bob"}`:            "",
		`{"username":"alice","USERNAME":null}`:    "alice",
		`{"username":"bob","username":"alice"}`:   "alice",
		`{"user":null,"username":"alice"}`:        "alice",
		"{\"u\u017fer\":\"alice\"}":               "alice",
		"null":                                    "",
		`{"user":"alice","user":null,"other":{}}`: "alice",
	} {
		if info, err := ParseUserInfo(text); err != nil || info.User != user {
			t.Errorf("%s: %+v, %v", text, info, err)
		}
	}
}

func TestInvalidUserInfo(t *testing.T) {
	for text, message := range map[string]string{
		`{"user":null,"Username":1}`: `"username" must be a string`,
		`xyz`:                        "not valid JSON: invalid character 'x'",
		`{"user":"a"`:                "not valid JSON: unexpected end",
		`{"user":1}`:                 `"user" must be a string`,
		`{"user":1,"user":"a"}`:      `"user" must be a string`,
		`{"groups":{"a":1}}`:         `"groups" must be a list of strings`,
		`{"groups":[1]}`:             `"groups" must be a list of strings`,
		`{"user":"a","n":NaN}`:       "not valid JSON: invalid character 'N'",
		`[]`:                         "must be a JSON object",
		`7`:                          "must be a JSON object",
		`{"user":"` + strings.Repeat("é", maxUserInfoBytes/2) + `"}`: "longer than 262144 bytes",
	} {
		_, err := ParseUserInfo(text)
		if !errors.Is(err, ErrInvalidUserInfo) || !strings.Contains(err.Error(), message) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	_, err := UserInfo{User: strings.Repeat("a", maxUserInfoBytes)}.Annotation()
	if !errors.Is(err, ErrInvalidUserInfo) {
		t.Error(err)
	}
}

func FuzzUserInfo(f *testing.F) {
	f.Add(`{"user":"alice","groups":["dev",null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		info, err := ParseUserInfo(text)
		if err != nil {
			return
		}
		built, err := info.Annotation()
		if err != nil {
			return // escapes have made it longer
		}
		again, err := ParseUserInfo(built)
		if err != nil || again.User != info.User || !slices.Equal(again.Groups, info.Groups) {
			t.Errorf("%q: %+v, %+v, %v", text, info, again, err)
		}
	})
}
