// Command rbac-oracle answers questions about access with the authorizers of Kubernetes.
//
// Each line of its input is a JSON object with RBAC objects and questions about them; each line of
// its output is a list of booleans, one for each question.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

type cluster struct {
	Roles               []*rbacv1.Role               `json:"roles"`
	ClusterRoles        []*rbacv1.ClusterRole        `json:"clusterRoles"`
	RoleBindings        []*rbacv1.RoleBinding        `json:"roleBindings"`
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding `json:"clusterRoleBindings"`
	Questions           []question                   `json:"questions"`
}

type question struct {
	User      string   `json:"user"`
	Groups    []string `json:"groups"`
	Verb      string   `json:"verb"`
	Group     string   `json:"group"`
	Resource  string   `json:"resource"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
}

func (c *cluster) answers() []bool {
	_, objects := validation.NewTestRuleResolver(
		c.Roles, c.RoleBindings, c.ClusterRoles, c.ClusterRoleBindings)
	// The API server asks its privileged group before RBAC.
	authorizers := union.New(
		authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		rbac.New(objects, objects, objects, objects))
	answers := []bool{}
	for _, each := range c.Questions {
		decision, _, _ := authorizers.Authorize(context.Background(), authorizer.AttributesRecord{
			User:            &user.DefaultInfo{Name: each.User, Groups: each.Groups},
			Verb:            each.Verb,
			APIGroup:        each.Group,
			Resource:        each.Resource,
			Namespace:       each.Namespace,
			Name:            each.Name,
			ResourceRequest: true,
		})
		answers = append(answers, decision == authorizer.DecisionAllow)
	}
	return answers
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		var asked cluster
		if err := json.Unmarshal(line, &asked); err != nil {
			log.Fatal(err)
		}
		if err := output.Encode(asked.answers()); err != nil {
			log.Fatal(err)
		}
	}
}
