// Mutants measures how much of what the code says the tests of the rooms hold it to: it
// changes one thing at a time (changes.go) and runs the tests, of which one should fail.
// Nothing in the tree is written: the compiler gets what is changed as an overlay. The
// changes inside functions are compiled together, and the environment says which of them
// a run meets; so a room is linked once and not a thousand times.
//
// It fails when a room is below its target, and when survivors.txt, the list of those
// that were read and left, has one that is no more or that a test kills.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/build"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pure are the rooms that need nothing but themselves, the most important first.
var pure = strings.Fields("approval token grantset policy org client dpop strictjson sse rules identity facts directory attempt journal/chain activity journal fault terminal probe")

// A suite is tests of a room, all or those whose names match, with a variable of the environment.
type suite struct{ room, run, with string }

// others are rooms whose tests start a store, each with what runs for those that survive
// its own: of one engine where the other does not come by, and the faster first. On
// PostgreSQL these are all tests of store: each may be the only one that comes by.
var others = map[string][]suite{
	"oauth": nil, "api": nil,
	"store/engine": {onSQLite, onPostgres}, "store/sqlite": {onFiles, onSQLite}, "store/postgres": {onPostgres, onServers},
}

var (
	onSQLite   = suite{"store/enginetest", "^TestSQLite$", ""}
	onPostgres = suite{"store/enginetest", "^TestPostgres$", ""}
	onFiles    = suite{"store", "Backup|Copies|Copy|Harmed|Inspect|LongChange|Files|Migrat|MovedFile|NotADatabase|OneServer|PowerLoss|Readers|Replace|Restore", "SQLITEONLY=1"}
	onServers  = suite{"store", "", "PGONLY=1"}
)

const (
	pureTarget, otherTarget = 95, 85 // per cent of the mutants that have to be killed

	memory = 4 << 20 // KiB that a run may have: some mutants never stop appending
)

func main() {
	log.SetFlags(0)
	sample := flag.Int("sample", 0, "of each room, this many mutants by chance; 0 for all")
	seed := flag.Uint64("seed", 1, "which of them")
	flag.Parse()
	rooms := flag.Args()
	if len(rooms) == 0 {
		rooms = append(pure, slices.Sorted(maps.Keys(others))...)
	}
	dir, err := os.MkdirTemp("", "mutants-")
	check(err)
	known, failed := survivors(), false
	table := "\n| Room | Mutants | Killed | Listed | Survived | Score |\n|---|--:|--:|--:|--:|--:|\n"
	for _, room := range rooms {
		mutants := read(room)
		for key := range known {
			if filepath.Dir(strings.Fields(key)[0]) == room && !slices.ContainsFunc(mutants, func(m *mutant) bool { return m.key == key }) {
				fmt.Println("listed, and no more:", key)
				failed = true
			}
		}
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		if *sample > 0 && *sample < len(mutants) {
			mutants = mutants[:*sample]
		}
		slices.SortFunc(mutants, func(a, b *mutant) int { return a.id - b.id })
		for _, tests := range append([]suite{{room: room}}, others[room]...) {
			judge(dir, tests, mutants)
		}
		row, ok := report(room, mutants, known)
		table, failed = table+row, failed || !ok
	}
	check(os.RemoveAll(dir))
	if fmt.Print(table); failed {
		os.Exit(1)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// survivors reads lines as report prints them, without the number of the line. The reason
// is in comments above them, and good up to the next empty line.
func survivors() map[string]bool {
	list, err := os.ReadFile("scripts/mutants/survivors.txt")
	check(err)
	known, reason := map[string]bool{}, false
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			reason = line != ""
		} else if known[line] || !reason {
			log.Fatalf("survivors.txt: twice, or without a reason: %s", line)
		} else {
			known[line] = true
		}
	}
	return known
}

// judge runs the tests of a room against the mutants that are alive: those in functions,
// where a test comes by, and those outside, each compiled alone.
func judge(dir string, tests suite, mutants []*mutant) {
	binary, reached := filepath.Join(dir, "test"), filepath.Join(dir, "reached")
	var inside []*mutant
	for again := true; again; again = compile(dir, tests.room, binary, inside) {
		inside = slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.state != alive || m.decl == nil })
	}
	check(os.WriteFile(reached, nil, 0o600))
	out, took, ok := run(binary, tests, time.Hour, "MUTANT=-1", "MUTANT_REACHED="+reached)
	if !ok {
		log.Fatalf("%s fails without a mutant:\n%s", tests.room, out)
	}
	limit := 3*took + 2*time.Second
	seen, err := os.ReadFile(reached)
	check(err)
	log.Printf("tests of %s %s: %d mutants in functions, each for %v of a processor", tests.room, tests.run, len(inside), limit.Round(time.Second))
	for _, m := range mutants {
		ok := true
		switch {
		case m.state != alive, m.decl != nil && !slices.Contains(strings.Fields(string(seen)), strconv.Itoa(m.first)):
		case m.decl != nil:
			_, _, ok = run(binary, tests, limit, "MUTANT="+strconv.Itoa(m.id))
		case !compile(dir, tests.room, binary+"-alone", []*mutant{m}):
			_, _, ok = run(binary+"-alone", tests, limit)
		}
		if !ok {
			m.state = dead
		}
	}
}

// quiet is for tests that have rapid, which would write what failed into the tree, and
// look for half a minute for something smaller that fails.
var quiet = []string{"-rapid.nofailfile", "-rapid.shrinktime=1ns"}

func hasRapid(room string) bool {
	pkg, err := build.ImportDir(room, 0)
	check(err)
	return slices.Contains(append(pkg.TestImports, pkg.XTestImports...), "pgregory.net/rapid")
}

// run runs the tests in the room's folder up to the first that fails, and reports what time
// of a processor they took and whether all passed within that. The clock says nothing of a
// machine that has other things to do; it is for those that wait for each other.
func run(binary string, tests suite, limit time.Duration, env ...string) (string, time.Duration, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*limit+5*time.Minute)
	defer cancel()
	args := []string{"-c", fmt.Sprintf(`ulimit -d %d -t %d && exec "$0" "$@"`, memory, int(limit/time.Second)+1), binary, "-test.failfast", "-test.run=" + tests.run}
	if hasRapid(tests.room) {
		args = append(args, quiet...)
	}
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = tests.room, append(append(os.Environ(), env...), tests.with), time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(cmd.Start())
	go endStill(ctx, cancel, cmd.Process.Pid)
	err := cmd.Wait()
	return out.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err == nil
}

// endStill ends a process that uses less than a tenth of a second of a processor in a minute: it
// waits for something that no longer comes. It does nothing where there is no /proc.
func endStill(ctx context.Context, end func(), pid int) {
	used := 0
	for still := 0; still < 12 && ctx.Err() == nil; still++ {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		if user+system > used+10 { // hundredths of a second
			used, still = user+system, 0
		}
		time.Sleep(5 * time.Second)
	}
	end()
}

var complaint = regexp.MustCompile(`\bzz(\d+)\.go:`)

// compile builds the tests of a room with these mutants, all in functions or a single one.
// It marks those that do not compile, and reports whether there were any.
func compile(dir, tests, binary string, mutants []*mutant) (again bool) {
	files, replace := map[string]string{}, map[string]string{}
	for _, m := range mutants {
		if m.decl == nil {
			files[m.file.name] = m.text(0, len(m.file.text))
		} else if files[m.file.name] == "" {
			files[m.file.name] = m.file.with(mutants)
			files[filepath.Dir(m.file.name)+"/zz.go"] = fmt.Sprintf(chooser, m.file.tree.Name.Name)
		}
	}
	for name, text := range files {
		from, err := filepath.Abs(name)
		check(err)
		replace[from] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		check(os.WriteFile(replace[from], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	check(err)
	check(os.WriteFile(dir+"/overlay.json", overlay, 0o600))
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", dir+"/overlay.json", "-o", binary, "./"+tests).CombinedOutput()
	if err == nil {
		return false
	}
	for _, c := range complaint.FindAllStringSubmatch(string(out), -1) {
		for _, m := range mutants {
			if strconv.Itoa(m.id) == c[1] {
				m.state, again = broken, true
			}
		}
	}
	if len(mutants) == 1 {
		mutants[0].state, again = broken, true
	}
	if !again {
		log.Fatalf("%s does not compile:\n%s", tests, out)
	}
	return again
}

// report prints the survivors of a room, and returns its row of the table and whether it
// is as it should be.
func report(room string, mutants []*mutant, known map[string]bool) (row string, ok bool) {
	count, listed, target := [3]int{}, 0, otherTarget
	if slices.Contains(pure, room) {
		target = pureTarget
	}
	ok = true
	for _, m := range mutants {
		count[m.state]++
		switch {
		case m.state == dead && known[m.key]:
			fmt.Println("listed, and killed:", m.key)
			ok = false
		case m.state == alive && known[m.key]:
			listed++
		case m.state == alive:
			fmt.Printf("%d: %s\n", m.line, m.key)
		}
	}
	survived := count[alive] - listed
	score := 100 * float64(count[dead]) / float64(max(1, survived+count[dead]))
	row = fmt.Sprintf("| `%s` | %d | %d | %d | %d | %.1f %% |\n", room, count[alive]+count[dead], count[dead], listed, survived, score)
	fmt.Print(row)
	return row, ok && score >= float64(target)
}
