# Reads the events of `go test -json` (one JSON object a line, described by
# `go doc test2json`), prints what `go test` without -v would print, and closes
# with the counts. Exits 1 when anything failed or was skipped, or nothing ran.
#
# A quote inside a JSON string is always escaped, so "Action":"pass" with bare
# quotes stands only where go test put it, whatever a test prints.

# text returns the JSON string member name of the event, "" where it has none.
function text(name,    at, s, c, out, i) {
	at = index($0, "\"" name "\":\"")
	if (at == 0) return ""
	s = substr($0, at + length(name) + 4)
	out = ""
	while (match(s, /["\\]/)) {
		out = out substr(s, 1, RSTART - 1)
		c = substr(s, RSTART, 1)
		s = substr(s, RSTART + 1)
		if (c == "\"") return out
		c = substr(s, 1, 1)
		s = substr(s, 2)
		if (c == "n") out = out "\n"
		else if (c == "t") out = out "\t"
		else if (c == "r") out = out "\r"
		else if (c == "u") {
			c = tolower(substr(s, 1, 4))
			s = substr(s, 5)
			if (c in plain) out = out plain[c]
			else if (substr(c, 1, 2) != "00") out = out "\\u" c
			# other control characters are dropped
		} else out = out c
	}
	return out
}

BEGIN {
	plain["003c"] = "<"; plain["003e"] = ">"; plain["0026"] = "&"
	plain["001b"] = "\033"
	passed = failed = skipped = 0
}

# What is not an event comes from the go command itself: show it.
!/^\{.*"Action":"/ { print; next }

{
	action = ""
	if (match($0, /"Action":"[a-z-]+"/)) action = substr($0, RSTART + 10, RLENGTH - 11)
	package = text("Package")
	test = text("Test")
	key = package SUBSEP test
}

action == "build-output" { printf "%s", text("Output"); next }

action == "run" { open[key] = 1; next }

action == "output" {
	line = text("Output")
	if (line ~ /^=== (RUN|PAUSE|CONT|NAME) /) next
	if (test != "") said[key] = said[key] line
	else if (line !~ /^(PASS|coverage: .*)\n$/) { printf "%s", line; fflush() }
	next
}

test != "" && (action == "pass" || action == "fail" || action == "skip") {
	delete open[key]
	if (action == "pass") passed++
	if (action == "fail") { failed++; broken[package]++ }
	if (action == "skip") skipped++
	if (action != "pass") { printf "%s", said[key]; fflush() }
	delete said[key]
	next
}

# A package can fail with no test to blame: it did not build, TestMain gave up,
# the process died. That is one failure, and its open tests say where it was.
test == "" && action == "fail" {
	if (!(package in broken)) failed++
	for (key in open) {
		split(key, part, SUBSEP)
		if (part[1] != package) continue
		printf "%sunfinished: %s %s\n", said[key], package, part[2]
		delete open[key]
	}
	fflush()
}

END {
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit (failed > 0 || skipped > 0 || passed == 0)
}
