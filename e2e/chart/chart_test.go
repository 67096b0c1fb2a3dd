// Package chart renders and lints the Helm chart with Helm's own packages. It is a
// module of its own, so that the server's has none of Helm's and Kubernetes' modules.
package chart

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../contrib/helm/grantkeeper"

// installed is what an installation applies. Fields that Kubernetes does not know
// have failed the test.
type installed struct {
	deployment apps.Deployment
	service    core.Service
	config     core.ConfigMap
	budget     *policy.PodDisruptionBudget
	notes      string
}

func render(values map[string]any) (map[string]string, error) {
	c, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "auth", Namespace: "login", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func install(t *testing.T, values map[string]any) (in installed) {
	t.Helper()
	texts, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		var into any
		switch strings.TrimPrefix(name, "grantkeeper/templates/") {
		case "deployment.yaml":
			into = &in.deployment
		case "service.yaml":
			into = &in.service
		case "configmap.yaml":
			into = &in.config
		case "poddisruptionbudget.yaml":
			if strings.TrimSpace(text) == "" {
				continue
			}
			in.budget = new(policy.PodDisruptionBudget)
			into = in.budget
		case "NOTES.txt":
			in.notes = text
			continue
		case "_helpers.tpl":
			continue
		default:
			t.Fatalf("%s is not looked at", name)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
	}
	return in
}

func with(more map[string]any) map[string]any {
	values := map[string]any{"baseURLs": []any{"https://app.example.com", "https://b.example"}}
	maps.Copy(values, more)
	return values
}

func TestLint(t *testing.T) {
	for _, values := range []map[string]any{with(nil), with(everything)} {
		for _, m := range lint.RunAll(folder, values, "login").Messages {
			if m.Severity > support.InfoSev {
				t.Error(m)
			}
		}
	}
}

func secret(key string) map[string]any { return map[string]any{"name": "mine", "key": key} }

// everything sets whatever has no default.
var everything = map[string]any{
	"replicas": 1,
	"image":    map[string]any{"digest": "sha256:" + strings.Repeat("0f", 32), "tag": "ignored"},
	"secrets": map[string]any{
		"keys": secret("a"), "database": secret("b"), "limiter": secret("c"), "operator": secret("d"), "service": secret("e"),
	},
	"imagePullSecrets": []any{map[string]any{"name": "registry"}},
	"trustedProxies":   []any{"10.0.0.0/8", "fd00::/8"},
	"config":           "[service]\nname = \"Bakery\"\n",
	"env":              []any{map[string]any{"name": "GRANTKEEPER_LOG_LEVEL", "value": "debug"}},
	"volumes":          []any{map[string]any{"name": "more", "emptyDir": map[string]any{}}},
	"volumeMounts":     []any{map[string]any{"name": "more", "mountPath": "/more"}},
	"autoMigrate":      true,
	"recreate":         true,
	"podAnnotations":   map[string]any{"note": "x"},
	"nodeSelector":     map[string]any{"disk": "fast"},
	"tolerations":      []any{map[string]any{"operator": "Exists"}},
	"affinity":         map[string]any{"nodeAffinity": map[string]any{}},
}

func environment(c core.Container) map[string]string {
	all := map[string]string{}
	for _, e := range c.Env {
		all[e.Name] = e.Value
	}
	return all
}

// Each file that the environment names is one that a Secret gives, and no other is.
func secretFiles(t *testing.T, in installed) (files []string) {
	t.Helper()
	pod := in.deployment.Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "secrets" })
	given := map[string]bool{}
	for _, s := range pod.Volumes[i].Projected.Sources {
		for _, item := range s.Secret.Items {
			given["/run/secrets/grantkeeper/"+item.Path] = true
			files = append(files, s.Secret.Name+" "+item.Key)
		}
	}
	for name, value := range environment(pod.Containers[0]) {
		if strings.HasSuffix(name, "_FILE") {
			if !given[value] {
				t.Errorf("%s is %s, which no Secret gives", name, value)
			}
			delete(given, value)
		}
	}
	if len(given) > 0 {
		t.Errorf("%v are given and nothing reads them", given)
	}
	return files
}

func TestInstall(t *testing.T) {
	in := install(t, with(nil))
	d := in.deployment
	if d.Name != "auth-grantkeeper" || *d.Spec.Replicas != 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%s, %d replicas, %+v", d.Name, *d.Spec.Replicas, d.Spec.Strategy)
	}
	labels := d.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{"deployment": d.Spec.Selector.MatchLabels, "service": in.service.Spec.Selector, "budget": in.budget.Spec.Selector.MatchLabels, "spread": d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
		if len(selector) != 2 || labels["app.kubernetes.io/name"] != selector["app.kubernetes.io/name"] || labels["app.kubernetes.io/instance"] != selector["app.kubernetes.io/instance"] {
			t.Errorf("%s selects %v, and pods have %v", what, selector, labels)
		}
	}
	if in.budget.Spec.MaxUnavailable.IntValue() != 1 || in.service.Spec.Ports[0].TargetPort.String() != "http" {
		t.Errorf("%+v, %+v", in.budget.Spec, in.service.Spec)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if want := map[string]string{
		"GRANTKEEPER_BASE_URLS": "https://app.example.com,https://b.example", "GRANTKEEPER_AUTO_MIGRATE": "false", "GRANTKEEPER_LOG_FORMAT": "json",
		"GRANTKEEPER_SECRET_KEY_FILE": "/run/secrets/grantkeeper/keys", "GRANTKEEPER_DATABASE_URL_FILE": "/run/secrets/grantkeeper/database",
		"GRANTKEEPER_OPERATOR_PASSWORD_FILE": "/run/secrets/grantkeeper/operator",
	}; !maps.Equal(environment(c), want) {
		t.Errorf("environment %v", environment(c))
	}
	if got := secretFiles(t, in); !slices.Equal(got, []string{"grantkeeper database.url", "grantkeeper secret.key", "grantkeeper operator.password"}) {
		t.Errorf("secrets %q", got)
	}
	if c.ReadinessProbe.Exec == nil || c.LivenessProbe.TCPSocket == nil || c.StartupProbe.TCPSocket == nil || len(c.Ports) != 1 || c.Ports[0].ContainerPort != 8080 {
		t.Errorf("probes and ports: %+v", c)
	}
	if !strings.Contains(in.notes, "https://app.example.com") {
		t.Errorf("notes:\n%s", in.notes)
	}
	text, err := os.ReadFile("../../cmd/grantkeeper/version.go")
	if err != nil {
		t.Fatal(err)
	}
	if version := regexp.MustCompile(`var version = "(.*)"`).FindSubmatch(text); c.Image != "images.example/grantkeeper:"+string(version[1]) {
		t.Errorf("image %s of version %s", c.Image, version[1])
	}
}

func TestInstallWithEverything(t *testing.T) {
	in := install(t, with(everything))
	pod := in.deployment.Spec.Template.Spec
	c := pod.Containers[0]
	if in.budget != nil || in.deployment.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType || in.deployment.Spec.Strategy.RollingUpdate != nil {
		t.Errorf("%+v, %+v", in.budget, in.deployment.Spec.Strategy)
	}
	if want := "images.example/grantkeeper@sha256:" + strings.Repeat("0f", 32); c.Image != want {
		t.Errorf("image %s", c.Image)
	}
	if got := secretFiles(t, in); !slices.Equal(got, []string{"mine b", "mine a", "mine c", "mine d", "mine e"}) {
		t.Errorf("secrets %q", got)
	}
	e := environment(c)
	if e["GRANTKEEPER_AUTO_MIGRATE"] != "true" || e["GRANTKEEPER_TRUSTED_PROXIES"] != "10.0.0.0/8,fd00::/8" || e["GRANTKEEPER_LOG_LEVEL"] != "debug" {
		t.Errorf("environment %v", e)
	}
	if got := in.config.Data["grantkeeper.toml"]; got != everything["config"] {
		t.Errorf("grantkeeper.toml is %q", got)
	}
	if !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == "more" }) || len(c.VolumeMounts) != 3 || len(pod.Tolerations) != 1 || pod.NodeSelector["disk"] != "fast" || pod.Affinity.NodeAffinity == nil || in.deployment.Spec.Template.Annotations["note"] != "x" || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("%+v", pod)
	}
	// A new configuration is a new pod.
	before := install(t, with(nil)).deployment.Spec.Template.Annotations["checksum/config"]
	if after := in.deployment.Spec.Template.Annotations["checksum/config"]; before == after || after == "" {
		t.Errorf("%q and %q", before, after)
	}
	docs, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	e["GRANTKEEPER_LIMITER_URL"] = ""
	for name := range e {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("%s is no variable of the configuration", name)
		}
	}
}

// Pods run as nobody, on a file system that they cannot write, with no rights, and no
// token of the cluster.
func TestPodsHaveNoRights(t *testing.T) {
	for _, values := range []map[string]any{with(nil), with(everything)} {
		pod := install(t, values).deployment.Spec.Template.Spec
		p, c := pod.SecurityContext, pod.Containers[0].SecurityContext
		got := fmt.Sprintln(*p.RunAsNonRoot, *p.RunAsUser, *p.RunAsGroup, *p.FSGroup, p.SeccompProfile.Type, *c.AllowPrivilegeEscalation, *c.ReadOnlyRootFilesystem, c.Privileged, c.Capabilities.Drop, c.Capabilities.Add, *pod.AutomountServiceAccountToken, pod.HostNetwork, len(pod.Containers), len(pod.InitContainers))
		if want := "true 10001 10001 10001 RuntimeDefault false true <nil> [ALL] [] false false 1 0\n"; got != want {
			t.Errorf("%swant\n%s", got, want)
		}
		for _, v := range pod.Volumes {
			if v.Projected != nil && *v.Projected.DefaultMode != 0o400 || v.HostPath != nil {
				t.Errorf("%+v", v)
			}
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"baseURLs is required":              nil,
		"secrets.keys.name is required":     with(map[string]any{"secrets": map[string]any{"keys": map[string]any{"name": ""}}}),
		"secrets.operator.name is required": with(map[string]any{"secrets": map[string]any{"operator": map[string]any{"name": ""}}}),
		"secrets.database.name is required": with(map[string]any{"secrets": map[string]any{"database": map[string]any{"name": ""}}}),
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
