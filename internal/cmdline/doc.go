// Package cmdline is what the programs' command lines have in common: errors of
// whoever wrote the command line, and how an error becomes a line on stderr and
// an exit code. It knows no command.
//
// Thread rule: any goroutine.
package cmdline
