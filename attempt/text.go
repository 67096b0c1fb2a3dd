package attempt

import (
	"fmt"
	"strconv"
	"strings"
)

// Text writes observations, a line each: what, when and how, and no keys.
func Text(all []Observation) string {
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, "%d %d %d %s %s %d %d %s %d\n", o.At, o.Step, o.Outcome, word(string(o.Reason)), word(string(o.What)), o.Status, o.N, word(string(o.Agent)), o.Again)
	}
	return b.String()
}

func word(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ParseText reads what Text wrote, and nothing else. A reason or a class that a later
// release has written is taken as it is.
func ParseText(text string) (all []Observation, err error) {
	for line := range strings.Lines(text) {
		o, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	if Text(all) != text {
		return nil, errText
	}
	return all, nil
}

var errText = fmt.Errorf("attempt: observations that cannot be read")

func parseLine(line string) (o Observation, err error) {
	words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(words) != 9 {
		return o, errText
	}
	var numbers [9]int64
	for _, i := range []int{0, 1, 2, 5, 6, 8} {
		if numbers[i], err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return o, errText
		}
	}
	for _, i := range []int{3, 4, 7} {
		if words[i] == "-" {
			words[i] = ""
		}
		if strings.ContainsFunc(words[i], func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }) {
			return o, errText
		}
	}
	step, outcome := numbers[1], numbers[2]
	if step < 1 || step > Steps || outcome < int64(Done) || outcome > int64(Failed) || numbers[0] < 0 || numbers[8] < 0 || numbers[8] > maxAgain ||
		numbers[5] < 0 || numbers[5] > 999 || numbers[6] < 0 || numbers[6] > maxNumber {
		return o, errText
	}
	return Observation{
		At: numbers[0], Step: Step(step), Outcome: Outcome(outcome), Reason: Reason(words[3]), What: What(words[4]),
		Status: int(numbers[5]), N: int(numbers[6]), Agent: Agent(words[7]), Again: int(numbers[8]),
	}, nil
}

// maxNumber bounds N.
const maxNumber = 1_000_000_000
