package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// JSON of SPDX 2.3, as far as it is written here.
type (
	spdxPackage struct {
		ID               string         `json:"SPDXID"`
		Name             string         `json:"name"`
		Version          string         `json:"versionInfo"`
		FileName         string         `json:"packageFileName,omitempty"`
		DownloadLocation string         `json:"downloadLocation"`
		FilesAnalyzed    bool           `json:"filesAnalyzed"`
		Checksums        []spdxChecksum `json:"checksums,omitempty"`
		LicenseConcluded string         `json:"licenseConcluded"`
		LicenseDeclared  string         `json:"licenseDeclared"`
		Copyright        string         `json:"copyrightText"`
		Comment          string         `json:"comment,omitempty"`
		References       []spdxRef      `json:"externalRefs,omitempty"`
		Purpose          string         `json:"primaryPackagePurpose"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// sbom lists, for each binary by its file name, the modules that the toolchain says
// it was linked from, and the standard library. The licences of others are not
// asserted: nobody has looked at them file by file.
func sbom(r release, binaries map[string][]byte) ([]byte, error) {
	const none = "NOASSERTION"
	var packages, modules []spdxPackage
	var relations []spdxRelationship
	ids := map[string]string{} // of a module, by its purl
	module := func(path, version, hash string) string {
		purl := "pkg:golang/" + path + "@" + version
		if id, known := ids[purl]; known {
			return id
		}
		id := fmt.Sprintf("SPDXRef-Module-%d", len(ids))
		ids[purl] = id
		p := spdxPackage{
			ID: id, Name: path, Version: version, DownloadLocation: none, LicenseConcluded: none, LicenseDeclared: none, Copyright: none, Purpose: "LIBRARY",
			References: []spdxRef{{"PACKAGE-MANAGER", "purl", purl}},
		}
		if hash != "" {
			p.Comment = "go.sum: " + hash
		}
		modules = append(modules, p)
		return id
	}
	for i, name := range sorted(binaries) {
		info, err := buildinfo.Read(bytes.NewReader(binaries[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		id := fmt.Sprintf("SPDXRef-Binary-%d", i)
		packages = append(packages, spdxPackage{
			ID: id, Name: binaryForm.FindStringSubmatch(name)[1], Version: r.version, FileName: name, DownloadLocation: "git+" + repository + "@" + r.commit,
			Checksums: []spdxChecksum{{"SHA256", sum(binaries[name])}}, LicenseConcluded: none, LicenseDeclared: "MIT", Copyright: none, Purpose: "APPLICATION",
		})
		relations = append(relations, spdxRelationship{"SPDXRef-DOCUMENT", "DESCRIBES", id},
			spdxRelationship{id, "DEPENDS_ON", module("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")})
		for _, dep := range info.Deps {
			m := used(dep)
			relations = append(relations, spdxRelationship{id, "DEPENDS_ON", module(m.Path, m.Version, m.Sum)})
		}
	}
	return indented(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
		"name":              "grantkeeper-" + r.version,
		"documentNamespace": repository + "/sbom/" + r.version + "/" + r.commit,
		"creationInfo":      map[string]any{"created": r.when.Format(time.RFC3339), "creators": []string{"Tool: grantkeeper-scripts-release-" + r.version}},
		"packages":          append(packages, modules...), "relationships": relations,
	})
}

// used is the module that was linked, where another one replaces it.
func used(m *debug.Module) *debug.Module {
	for m.Replace != nil {
		m = m.Replace
	}
	return m
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}
