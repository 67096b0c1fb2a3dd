package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is who the server runs as in a container, as in contrib/container.
const nobody = 10001

// A descriptor is that of the OCI image specification 1.1.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A layout gathers the blobs of an image.
type layout struct{ entries []entry }

func (l *layout) add(mediaType string, content []byte) descriptor {
	digest := sum(content)
	l.entries = append(l.entries, entry{name: "blobs/sha256/" + digest, mode: 0o644, content: content})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	content, err := json.Marshal(v)
	return l.add(mediaType, content), err
}

// image is an OCI layout in a tar file: one index of the binaries for Linux, each in
// a layer of its own with nothing else but roots of trust, licences and the folders it needs.
func image(r release, binaries map[string][]byte) ([]byte, error) {
	labels := map[string]string{
		"org.opencontainers.image.title":    "grantkeeper",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.licenses": "MIT",
	}
	var l layout
	var manifests []descriptor
	seen := map[string]bool{}
	for _, arch := range architectures {
		files, err := tarball("", []entry{
			{name: "etc/grantkeeper/", mode: 0o755, uid: nobody, gid: nobody},
			{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots()},
			{name: "grantkeeper", mode: 0o755, content: binaries[arch]},
			{name: "licenses.txt", mode: 0o644, content: r.licenses},
			{name: "var/lib/grantkeeper/", mode: 0o700, uid: nobody, gid: nobody},
		}, r.when)
		if err != nil {
			return nil, err
		}
		compressed, err := zipped(files)
		if err != nil {
			return nil, err
		}
		layer := l.add("application/vnd.oci.image.layer.v1.tar+gzip", compressed)
		created := r.when.Format(time.RFC3339)
		config, err := l.addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
			"created": created, "os": "linux", "architecture": arch,
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(files)}},
			"history": []any{map[string]any{"created": created, "created_by": "make release"}},
			"config": map[string]any{
				"User": "10001:10001", "WorkingDir": "/", "StopSignal": "SIGTERM", "Labels": labels,
				// The operators' listener stays on the container's own loopback.
				"Env":          []string{"PATH=/", "GRANTKEEPER_LISTEN=:8080"},
				"Entrypoint":   []string{"/grantkeeper"},
				"Cmd":          []string{"serve"},
				"ExposedPorts": map[string]any{"8080/tcp": map[string]any{}},
				"Volumes":      map[string]any{"/var/lib/grantkeeper": map[string]any{}},
				// Docker's own: the specification has none, and others pass over it.
				"Healthcheck": map[string]any{"Test": []string{"CMD", "/grantkeeper", "doctor", "--only", "server"}, "Interval": 30 * time.Second, "Timeout": 5 * time.Second},
			},
		})
		if err != nil {
			return nil, err
		}
		manifest, err := l.addJSON("application/vnd.oci.image.manifest.v1+json", map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
			"config": config, "layers": []descriptor{layer}, "annotations": labels,
		})
		if err != nil {
			return nil, err
		}
		manifest.Platform = map[string]string{"os": "linux", "architecture": arch}
		manifests = append(manifests, manifest)
	}
	index, err := l.addJSON("application/vnd.oci.image.index.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests, "annotations": labels,
	})
	if err != nil {
		return nil, err
	}
	// Who loads the tar into a store of images finds its name here: the first for
	// containerd, Docker's among them, the second for everybody else.
	index.Annotations = map[string]string{"io.containerd.image.name": "localhost/grantkeeper:" + r.version, "org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []descriptor{index},
	})
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, content: top},
	}
	for _, e := range l.entries { // two architectures may share one
		if !seen[e.name] {
			seen[e.name] = true
			entries = append(entries, e)
		}
	}
	return tarball("", entries, r.when)
}

// roots are Mozilla's, of the version that go.mod names: those of the machine that
// builds would be others elsewhere. One that browsers trust only for certificates
// from before some day is left out, because a file cannot say so.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
