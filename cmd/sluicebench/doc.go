// Command sluicebench measures the relay beside its rivals, and puts its parts
// in front of outside judges.
//
//	sluicebench run      run the benchmark suite
//	sluicebench list     list its scenarios
//	sluicebench report   render the report of a run again
//	sluicebench compare  show what changed between two runs
//	sluicebench profile  record profiles of the relay under the suite's loads
//	sluicebench sync     measure the encrypted sync relay
//	sluicebench firehose  measure the repository event stream
//	sluicebench aepws    measure the aep-0.1 WebSocket binding
//	sluicebench echo     serve WebSocket echo through the relay's own code
//
// It owns its command line, the signals and the exit code, and nothing else:
// what the commands do is done by the packages below internal and bench.
//
// Exit codes: 0 after an orderly end, 1 when a command failed or connections
// did not close in time, 2 when the command line is wrong. An error is one line
// on stderr.
//
// Signals: SIGTERM or SIGINT ends the command in an orderly way; a second one
// ends the process at once.
//
// Thread rule: main's goroutine only.
package main
