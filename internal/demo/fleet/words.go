package fleet

// profile is a kind of agent: what it is asked and what it does.
type profile struct {
	name    string
	model   string
	prompts []string
	steps   []string
	tools   []tool
	says    []string // progress
	replies []string
}

// tool is one that a kind of agent calls.
type tool struct {
	name    string
	arg     string   // name of its argument
	values  []string // what it may be
	results []string
	guarded bool // a human is asked first, sometimes
	long    bool // may take long
	faults  []fault
}

// fault is how something fails.
type fault struct{ kind, message string }

var timedOut = fault{"timeout", "no answer after 30 s"}

// profiles are played by turns. No real product is meant.
var profiles = []profile{
	{
		name: "coder", model: "demo-large",
		prompts: []string{
			"make the importer accept CSV files with a byte order mark", "why does the nightly build take 40 minutes?",
			"rename Client to Session everywhere", "add retries to the upload, with a test",
		},
		steps: []string{"read the code", "write a failing test", "make the change", "run all tests"},
		tools: []tool{
			{
				name: "read_file", arg: "path", values: []string{"importer/csv.go", "upload/retry.go", "Makefile"},
				results: []string{"214 lines", "88 lines", "61 lines"}, faults: []fault{{"not_found", "no such file: importer/csv.go"}},
			},
			{
				name: "run_tests", arg: "package", values: []string{"./importer", "./upload", "./..."}, long: true,
				results: []string{"ok, 41 tests", "ok, 312 tests"},
				faults:  []fault{{"test_failure", "TestByteOrderMark: got \"\\ufeffname\", want \"name\""}, timedOut},
			},
			{
				name: "shell", arg: "command", values: []string{"rm -rf build/", "git push origin main", "make release"},
				results: []string{"done", "Everything up-to-date"}, guarded: true,
				faults: []fault{{"exit_status", "exit status 2: make: *** [release] Error 1"}},
			},
		},
		says:    []string{"reading the importer", "the test fails as it should", "3 of 5 files changed", "tests are green – formatting"},
		replies: []string{"Done: 5 files changed, all tests pass.", "The build spends 31 of 40 minutes in one test."},
	},
	{
		name: "researcher", model: "demo-small",
		prompts: []string{
			"which of our suppliers publish emission data?", "summarise what changed in the retention rules",
			"find three sources on battery recycling rates",
		},
		steps: []string{"plan the search", "search", "read and compare", "write the answer"},
		tools: []tool{
			{
				name: "web_search", arg: "query", values: []string{"battery recycling rate 2025", "retention rules amendment"},
				results: []string{"10 hits", "7 hits"}, faults: []fault{{"rate_limited", "429, retry after 2 s"}, timedOut},
			},
			{
				name: "fetch_page", arg: "url", values: []string{"https://example.org/report", "https://example.net/rules"},
				results: []string{"48 KB of text", "3 KB of text"}, long: true,
				faults: []fault{{"http_error", "503 from example.org"}, timedOut},
			},
			{
				name: "send_mail", arg: "to", values: []string{"supplier@example.com"}, results: []string{"sent"}, guarded: true,
				faults: []fault{{"refused", "550 mailbox unavailable"}},
			},
		},
		says:    []string{"12 candidates, 4 worth reading", "two sources contradict each other", "café menus are not relevant ☕"},
		replies: []string{"Three sources, all from this year; the second one is the best.", "Nothing changed but the deadline."},
	},
	{
		name: "operator", model: "demo-large",
		prompts: []string{
			"disk usage on db-2 is at 91 %", "roll the new certificate out", "why was checkout slow at nine?",
		},
		steps: []string{"look at the metrics", "find the cause", "fix it", "watch for a while"},
		tools: []tool{
			{
				name: "query_metrics", arg: "expression", values: []string{"disk_used{host=\"db-2\"}", "rate(http_errors[5m])"},
				results: []string{"91.2", "0.004"}, faults: []fault{{"bad_query", "parse error at position 12"}},
			},
			{
				name: "read_logs", arg: "unit", values: []string{"checkout", "postgres"}, results: []string{"1,204 lines"}, long: true,
				faults: []fault{timedOut},
			},
			{
				name: "restart_service", arg: "unit", values: []string{"checkout", "cache"}, results: []string{"active (running)"},
				guarded: true, faults: []fault{{"unit_failed", "checkout.service: start request repeated too quickly"}},
			},
		},
		says:    []string{"p99 is back under 200 ms", "old log files: 38 GB", "2 of 6 hosts done", "waiting for the queue to drain"},
		replies: []string{"db-2 is at 54 % again: rotated logs were kept twice.", "All six hosts have the new certificate."},
	},
}

// questions are those that are not about one tool.
var questions = []struct {
	kind, subject, prompt string
	options               [][2]string // id and label
}{
	{"input", "scope", "Which of the two should I begin with?", [][2]string{{"first", "The first"}, {"second", "The second"}}},
	{"review", "draft", "The draft is ready. Shall I send it?", [][2]string{{"send", "Send it"}, {"wait", "Wait"}}},
}
