package main

// provenance is an in-toto statement v1 with the predicate of SLSA v1 about all
// files, by name. It says nothing that two honest builders would not say alike: no
// times and no machine. It is signed only together with everything else, by
// SHA256SUMS.sig; who built is for whoever signs to answer for.
func provenance(r release, made map[string][]byte) ([]byte, error) {
	subjects := []any{}
	for _, name := range sorted(made) {
		subjects = append(subjects, map[string]any{"name": name, "digest": map[string]string{"sha256": sum(made[name])}})
	}
	policy := repository + "/blob/" + r.commit + "/docs/supply-chain.md"
	return indented(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          policy + "#how-a-release-is-made",
				"externalParameters": map[string]any{"repository": repository, "commit": r.commit, "version": r.version, "command": "make release VERSION=" + r.version},
				"internalParameters": map[string]any{"SOURCE_DATE_EPOCH": r.when.Unix(), "CGO_ENABLED": "0", "GOAMD64": "v1", "GOARM64": "v8.0"},
				"resolvedDependencies": []any{
					map[string]any{"uri": "git+" + repository + "@" + r.commit, "digest": map[string]string{"gitCommit": r.commit}},
					// Its bytes are checked by the go command.
					map[string]any{"uri": "pkg:generic/go@" + r.toolchain},
					map[string]any{"name": "modules", "uri": "git+" + repository + "@" + r.commit + "#go.sum", "digest": map[string]string{"sha256": sum(r.goSum)}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": policy + "#who-builds"}},
		},
	})
}
