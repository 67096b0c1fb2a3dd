// Command bench measures the server as it is, on this machine: it builds it, fills its
// database, asks over kept connections in a closed loop, and compares with a bare
// net/http server that the same generator asks in turn. docs/benchmarks.md says how to
// call it, and what the figures mean.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	bench
	scenarios   []scenario
	approvals   int // 0: not this
	growth, cut bool
	tails       bool
	timing      bool
	lists       int  // approvals; 0: not this
	strangers   int  // attempts to connect; 0: not this
	removed     int  // members that an import removes; 0: not this
	shared      bool // PostgreSQL
	scales      []int
	json        string
	folder      string
}

// result is everything of one call, as -json writes it.
type result struct {
	Date        time.Time       `json:"date"`
	Go          string          `json:"go"`
	System      string          `json:"system"`
	Processor   string          `json:"processor"`
	CPUs        int             `json:"cpus"` // for server and generator together
	Server      json.RawMessage `json:"server,omitempty"`
	Connections int             `json:"connections"`
	Seconds     float64         `json:"seconds"` // of one repetition
	Repetitions int             `json:"repetitions"`

	Comparisons []comparison `json:"comparisons,omitempty"`
	Sizes       []size       `json:"sizes,omitempty"`
	Scale       []scaled     `json:"scale,omitempty"`
	Growth      *growth      `json:"growth,omitempty"`
	Timings     []timing     `json:"timings,omitempty"`
	Lists       []listing    `json:"lists,omitempty"`
	Removals    []removal    `json:"removals,omitempty"`
	Cuts        []cut        `json:"cuts,omitempty"`
	Floods      []flood      `json:"floods,omitempty"`
	Tails       []tail       `json:"tails,omitempty"`
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == bareWord {
		exit(serveBare(os.Args[2:], os.Stdin, os.Stdout))
	}
	o, err := readOptions(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	exit(o.run(ctx, os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func readOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	o.progress = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	chosen := f.String("scenarios", strings.Join(usual(), ","), "what to measure, with commas between")
	f.IntVar(&o.connections, "connections", 64, "kept connections")
	f.DurationVar(&o.lasts, "duration", 3*time.Second, "of one repetition")
	f.IntVar(&o.repetitions, "repetitions", 5, "of each scenario")
	f.DurationVar(&o.warmup, "warmup", time.Second, "before the repetitions")
	f.IntVar(&o.live, "live", 10_000, "live approvals in the database")
	f.IntVar(&o.stock, "stock", 0, "approvals for exchange and revoke (default: for 25,000 requests a second)")
	f.IntVar(&o.approvals, "approvals", 0, "measure start and memory instead, with none, -live and this many approvals")
	f.BoolVar(&o.growth, "growth", false, "measure instead what 100,000 refreshes leave behind")
	f.BoolVar(&o.timing, "timing", false, "measure instead what the duration of refusals could tell")
	f.IntVar(&o.lists, "lists", 0, "measure instead the operators' lists over this many approvals, with every combination of filters")
	f.IntVar(&o.removed, "import", 0, "measure instead an import that removes this many members, and refreshes beside it")
	f.IntVar(&o.strangers, "flood", 0, "measure instead what this many attempts to connect, by strangers, leave in memory and in the database")
	f.BoolVar(&o.tails, "tails", false, "measure instead how long refreshes and calls take at half of the peak rate while members are imported, a backup is made, and so on")
	f.IntVar(&o.members, "members", 50_000, "that -tails imports, and removes again")
	f.Float64Var(&o.rate, "rate", 0, "refreshes a second, and twice as many calls, for -tails, where releases are compared: instead of half of the peak rate of each")
	f.BoolVar(&o.cut, "cut", false, "measure instead how soon a stream ends when its approval does; with -postgres, at a second node too")
	f.BoolVar(&o.shared, "postgres", false, "measure on PostgreSQL, which is started for it, and beside pgbench")
	scale := f.String("scale", "", "measure instead on PostgreSQL, with each of these numbers of approvals")
	f.StringVar(&o.buffers, "buffers", "4GB", "PostgreSQL's own memory, shared_buffers, for -scale")
	f.StringVar(&o.binary, "server", "", "measure this binary instead of the one that is built here: two of them in turn compare two releases")
	settings := f.String("settings", "", "file of settings that the scenarios are measured with, such as [activity] with keep = \"off\": with and without it in turn, it costs what is between")
	f.StringVar(&o.json, "json", "", "file for the result as JSON; - prints it instead of the table")
	f.StringVar(&o.folder, "dir", os.TempDir(), "folder for the data: on a disk, not in memory")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := o.choose(*chosen); err != nil {
		return o, err
	}
	if *settings != "" {
		text, err := os.ReadFile(*settings)
		if err != nil {
			return o, fmt.Errorf("-settings: %w", err)
		}
		o.settings = "\n" + string(text)
	}
	if *scale != "" {
		var err error
		if o.scales, err = sizesOf(*scale); err != nil {
			return o, err
		}
	}
	return o, o.checkNumbers(f.NArg())
}

// usual are the scenarios that both engines have.
func usual() (names []string) {
	for _, s := range scenarios {
		if s.within == "" {
			names = append(names, s.name)
		}
	}
	return names
}

func (o *options) choose(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		s, err := scenarioOf(strings.TrimSpace(name))
		if err != nil {
			return fmt.Errorf("-scenarios: %w; known are %s", err, strings.Join(usual(), ", "))
		}
		if s.within != "" && !o.shared {
			return fmt.Errorf("-scenarios: %s is for PostgreSQL alone, with -postgres", s.name)
		}
		o.scenarios = append(o.scenarios, s)
	}
	return nil
}

func (o options) checkNumbers(arguments int) error {
	instead := 0
	for _, is := range []bool{o.approvals > 0, o.growth, o.timing, o.cut, o.tails, o.lists > 0, o.removed > 0, o.strangers > 0, o.scales != nil} {
		if is {
			instead++
		}
	}
	for _, c := range []struct {
		wrong bool
		why   string
	}{
		{arguments > 0, "there are flags only, no arguments"},
		{o.connections < 1 || o.connections > 10_000, "-connections: from 1 to 10000"},
		{o.lasts <= 0 || o.warmup <= 0 || o.lasts > 10*time.Minute || o.warmup > 10*time.Minute, "-duration, -warmup: more than nothing, and at most 10m"},
		{o.repetitions < 1 || o.repetitions > 100, "-repetitions: from 1 to 100"},
		{o.live < 1 || o.stock < 0 || o.approvals < 0 || o.lists < 0 || o.removed < 0 || o.strangers < 0, "-stock, -approvals, -flood, -lists, -import: not below 0; -live: at least 1"},
		{o.members < 1 || o.members > 1_000_000, "-members: from 1 to 1000000"},
		{o.rate < 0 || o.rate > 1_000_000 || o.rate > 0 && !o.tails, "-rate: with -tails alone, and at most 1000000"},
		{o.removed > mostRemoved, fmt.Sprintf("-import: at most %d", mostRemoved)},
		{o.shared && (o.approvals > 0 || o.timing || o.strangers > 0), "-postgres: with scenarios, -growth, -lists, -import, -tails and -cut alone"},
		{o.shared && o.scales != nil, "-scale: without -postgres, it is on PostgreSQL"},
		{instead > 1, "one of -approvals, -cut, -flood, -growth, -import, -lists, -scale, -tails and -timing"},
	} {
		if c.wrong {
			return errors.New(c.why)
		}
	}
	return nil
}

// run measures and prints. It fails when an answer was wrong; the folder is then kept,
// but not when it was interrupted.
func (o options) run(ctx context.Context, stdout io.Writer) (err error) {
	if o.bench.folder, err = os.MkdirTemp(o.folder, "grantkeeper-bench-"); err != nil {
		return err
	}
	if o.binary == "" {
		o.progress("build the server")
		if o.binary, err = build(ctx, o.bench.folder); err != nil {
			return errors.Join(err, os.RemoveAll(o.bench.folder))
		}
	}
	r := o.newResult(ctx)
	wrong, err := o.measure(ctx, &r)
	if ctx.Err() != nil {
		return errors.Join(errors.New("interrupted"), os.RemoveAll(o.bench.folder))
	}
	if err == nil {
		err = o.print(stdout, r)
	}
	if err != nil || wrong > 0 {
		return errors.Join(err, fmt.Errorf("%d errors; logs and data are in %s", wrong, o.bench.folder))
	}
	if n := toldApart(r.Timings); n > 0 {
		err = fmt.Errorf("%d pairs of requests can be told apart by how long they take", n)
	}
	return errors.Join(err, os.RemoveAll(o.bench.folder))
}

func (o options) newResult(ctx context.Context) result {
	r := result{
		Date: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Processor: processor(), CPUs: runtime.GOMAXPROCS(0), Connections: o.connections,
		Seconds: o.lasts.Seconds(), Repetitions: o.repetitions,
	}
	if text, err := exec.CommandContext(ctx, o.binary, "version", "--json").Output(); err == nil && json.Valid(text) {
		r.Server = text
	}
	return r
}

// processor is the model's name, where the system tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// measure does what the flags ask for, and counts wrong answers.
func (o options) measure(ctx context.Context, r *result) (wrong int, err error) {
	b := &o.bench
	if o.shared {
		if b.postgres, err = startPostgres("256MB"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.postgres.Stop()) }()
	}
	switch {
	case o.approvals > 0:
		r.Sizes, err = b.sizes(ctx, o.approvals)
	case o.timing:
		r.Connections, r.Repetitions = 1, 1
		r.Timings, err = b.timings(ctx)
	case o.growth:
		r.Growth, err = b.growth(ctx)
	case o.lists > 0:
		r.Connections, r.Repetitions = 1, 1
		r.Lists, err = b.listings(ctx, o.lists)
	case o.removed > 0:
		r.Removals, err = b.removals(ctx, o.removed)
	case o.strangers > 0:
		r.Repetitions, r.Floods = 1, make([]flood, 1)
		r.Floods[0], err = b.flood(ctx, o.strangers)
		wrong += r.Floods[0].Errors
	case o.tails:
		r.Connections, r.Repetitions = 2*o.connections, 1
		r.Tails, err = b.tails(ctx)
	case o.cut:
		r.Connections, r.Repetitions = streamsCut, 1
		r.Cuts, err = b.cuts(ctx)
	default:
		err = o.compareAll(ctx, r)
	}
	for _, s := range r.Sizes {
		wrong += s.Errors
	}
	for _, one := range r.Removals {
		wrong += one.Errors
	}
	for _, one := range r.Tails {
		wrong += one.Errors
	}
	for _, c := range r.Comparisons {
		wrong += c.Errors
	}
	for _, s := range r.Scale {
		wrong += s.Errors
	}
	if r.Growth != nil {
		wrong += r.Growth.Errors
	}
	return wrong, err
}

// compareAll measures the scenarios that were chosen beside the bare server.
func (o options) compareAll(ctx context.Context, r *result) (err error) {
	bare, end, err := startBare(ctx, asBare)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if o.scales != nil {
		r.Scale, err = o.scale(ctx, o.scales, bare)
		return err
	}
	for _, s := range o.scenarios {
		c, err := o.compare(ctx, s, bare)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	return nil
}

func (o options) print(stdout io.Writer, r result) error {
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		text = append(text, '\n')
		if o.json == "-" {
			_, err = stdout.Write(text)
			return err
		}
		if err := os.WriteFile(o.json, text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%s, %d processors, %s, %d connections\n\n", r.Processor, r.CPUs, r.Go, r.Connections)
	printRows(stdout, r.Comparisons)
	printRows(stdout, r.Sizes)
	printScale(stdout, r.Scale)
	printRows(stdout, r.Removals)
	printRows(stdout, r.Cuts)
	printRows(stdout, r.Floods)
	printRows(stdout, r.Tails)
	printTimings(stdout, r.Timings)
	printListings(stdout, r.Lists)
	if r.Growth != nil {
		printGrowth(stdout, *r.Growth)
	}
	return nil
}
