// Command sluice is the event relay, and what follows, feeds and checks one.
//
//	sluice serve      run the relay
//	sluice tail       print events as they happen
//	sluice emit       send events, one JSON text a line
//	sluice control    send a command to the agent of a session
//	sluice timeline   show one session as a tree of runs, steps and tools
//	sluice validate   check files of events against the rules of the envelope
//	sluice demo       let made-up agents publish to a relay
//	sluice doctor     check a running relay
//	sluice firehose   follow and feed a repository event stream
//	sluice sync       look after the database of the encrypted sync relay
//	sluice device     keep rows and files in sync, encrypted, over sync relays
//	sluice version    print the version
//
// It owns the command line: flags laid over environment variables (later wins:
// preset of the profile, environment, flag), the token file, the log handler,
// the signals, what a terminal gets, and the exit code. What the values mean is
// package config's business, what the relay does package relay's, and what the
// other commands do that of the packages below internal/client, internal/demo,
// internal/device, internal/doctor and internal/store.
//
// Every setting has a variable and a flag that mirrors it, except secrets:
// those come from variables or files, since a command line is visible to
// other users of the machine. A flag that is set to nothing clears the
// variable, except --token-file: that would open the relay unseen.
//
// Exit codes: 0 after an orderly end (R464), 1 when the relay could not start or
// did not drain in time or a command failed, 78 when the command line or a
// variable is wrong (R11). Further ones are told by a command's help. An error
// is one line on stderr; usage is printed only when it is asked for. The token
// is in no output (R15).
//
// Signals: SIGTERM or SIGINT ends the relay, a second one skips what is left
// of the drain window (R460). SIGHUP reads the token file again and nothing
// else (C101); it never ends the process.
//
// Thread rule: main's goroutine only, beside one that hands signals on.
package main
