package tarry

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is a refusal: the broker's code, such as "EXISTS", and its sentence. Result is the broker's result for the operation, or nil.
type Error struct {
	Code    string
	Message string
	Result  *Result
}

func (e *Error) Error() string { return strings.ToLower(e.Code) + ": " + e.Message }

// Is compares codes: errors.Is(err, tarry.ErrExists).
func (e *Error) Is(target error) bool {
	var other *Error
	return errors.As(target, &other) && other.Code == e.Code
}

// Codes that programs often ask for.
var (
	ErrExists     = &Error{Code: "EXISTS", Message: "a live task of the queue has this key"}
	ErrNotDone    = &Error{Code: "NOT_DONE", Message: "the task's state does not allow the operation"}
	ErrStaleToken = &Error{Code: "STALE_TOKEN", Message: "the lease has ended"}
	ErrDenied     = &Error{Code: "DENIED", Message: "the principal may not do this"}
	ErrAborted    = &Error{Code: "ABORTED", Message: "nothing of the atomic request took effect"}
	// ErrUnavailable: the time has passed, and nothing was done.
	ErrUnavailable = &Error{Code: "UNAVAILABLE", Message: "nothing was done in time"}
	// ErrUnknown: the time has passed after the request was sent, so it may have taken effect.
	ErrUnknown = &Error{Code: "UNKNOWN", Message: "no answer in time, and it may have taken effect"}
)

// A verdict is an error with which a handler says what becomes of its task.
type verdict struct {
	kind     string // "retry", "dead" or "release"
	reason   string
	delay    time.Duration
	hasDelay bool
}

func (v *verdict) Error() string { return fmt.Sprintf("%s: %s", v.kind, v.reason) }

// Retry has the task delivered again after the queue's backoff. An attempt is charged.
func Retry(reason string) error { return &verdict{kind: "retry", reason: reason} }

// RetryAfter has the task delivered again after this time. An attempt is charged.
func RetryAfter(delay time.Duration, reason string) error {
	return &verdict{kind: "retry", reason: reason, delay: delay, hasDelay: true}
}

// Dead moves the task to the dead letters, with this reason.
func Dead(reason string) error { return &verdict{kind: "dead", reason: reason} }

// Release gives the task back without charging an attempt. It is due again after the delay.
func Release(delay time.Duration) error { return &verdict{kind: "release", delay: delay} }
