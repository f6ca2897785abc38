package tarry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const reasonSizeMax = 255

// Schedule is a task to be scheduled: after Delay, or at At. Body or JSON is the payload.
type Schedule struct {
	Queue      string
	Key        string
	Delay      time.Duration
	At         time.Time
	Body       []byte
	JSON       any
	Attributes map[string]string
	Priority   int           // 0 to 9; 9 is delivered first
	Expires    time.Duration // the task ends this long after its due time; 0: never
	OnConflict string        // action if a live task has the key: "reject" (""), "replace", "earlier" or "later"
}

// Ref names a task: by ID, or by Queue and Key.
type Ref struct {
	ID    string `json:"id,omitempty"`
	Queue string `json:"queue,omitempty"`
	Key   string `json:"key,omitempty"`
}

// Result is the broker's result for one operation. Outcome is the effect, or the state that prevented it.
type Result struct {
	ID         string `json:"id"`
	Outcome    string `json:"result"`
	Code       string `json:"code"` // "OK", or why the operation was refused
	Message    string `json:"message"`
	DueMs      int64  `json:"due_ms"`
	Deliveries int    `json:"deliveries"`
}

// OK reports whether the operation took effect, now or before.
func (r Result) OK() bool { return r.Code == "OK" }

func (r *Result) settle() {
	r.Code = strings.ToUpper(r.Code)
	if r.Code == "" {
		r.Code = "OK"
	}
}

// View is a task as Get sees it. State is pending, ready, in_flight, dead, acked, cancelled, expired or dropped.
type View struct {
	ID         string            `json:"id"`
	Queue      string            `json:"queue"`
	Key        string            `json:"key"`
	State      string            `json:"state"`
	Reason     string            `json:"reason"`
	DueMs      int64             `json:"due_ms"`
	Attempt    int               `json:"attempt"`
	Deliveries int               `json:"deliveries"`
	Priority   int               `json:"priority"`
	Attributes map[string]string `json:"attributes"`
	Body       []byte            `json:"-"`
}

// Task is one delivery.
type Task struct {
	View
	Token       string
	DeliveredMs int64
	lease       time.Duration
}

// Decode parses the body as JSON.
func (v *View) Decode(into any) error { return json.Unmarshal(v.Body, into) }

// payload is how HTTP shows a body: as `json` if it was stored so, as text if it is UTF-8, else in base 64.
type payload struct {
	JSON   json.RawMessage `json:"json"`
	Text   *string         `json:"body"`
	Base64 []byte          `json:"body_base64"`
}

func (p payload) bytes() []byte {
	if p.Text != nil {
		return []byte(*p.Text)
	}
	if p.JSON != nil {
		return p.JSON
	}
	return p.Base64
}

func milliseconds(name string, duration time.Duration) (int64, error) {
	if duration < 0 {
		return 0, fmt.Errorf("tarry: %s must be 0 or more, not %v", name, duration)
	}
	return int64((duration + time.Millisecond - 1) / time.Millisecond), nil // rounded up: a task is never early
}

// when adds the due time to an operation's arguments.
func when(arguments map[string]any, delay time.Duration, at time.Time) error {
	if at.IsZero() {
		ms, err := milliseconds("Delay", delay)
		arguments["delay_ms"] = ms
		return err
	}
	if delay != 0 {
		return fmt.Errorf("tarry: give Delay or At, not both")
	}
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	if ms < 0 {
		return fmt.Errorf("tarry: At must be 1970 or later, not %v", at)
	}
	arguments["due_ms"] = ms
	return nil
}

func (s Schedule) operation(ctx context.Context, inject func(context.Context, map[string]string)) (map[string]any, error) {
	arguments := map[string]any{"queue": s.Queue}
	if err := when(arguments, s.Delay, s.At); err != nil {
		return nil, err
	}
	attributes := map[string]string{}
	for name, value := range traceOf(ctx) {
		attributes[name] = value
	}
	if inject != nil {
		inject(ctx, attributes)
	}
	for name, value := range s.Attributes {
		attributes[name] = value
	}
	switch {
	case s.JSON != nil && s.Body != nil:
		return nil, fmt.Errorf("tarry: give Body or JSON, not both")
	case s.JSON != nil:
		text, err := json.Marshal(s.JSON)
		if err != nil {
			return nil, fmt.Errorf("tarry: JSON: %w", err)
		}
		arguments["json"] = json.RawMessage(text)
	case utf8.Valid(s.Body):
		arguments["body"] = string(s.Body)
	default:
		arguments["body_base64"] = s.Body
	}
	if len(attributes) > 0 {
		arguments["attributes"] = attributes
	}
	if s.Key != "" {
		arguments["key"] = s.Key
	}
	if s.Priority != 0 {
		arguments["priority"] = s.Priority
	}
	if s.OnConflict != "" {
		arguments["on_conflict"] = s.OnConflict
	}
	if s.Expires != 0 {
		ms, err := milliseconds("Expires", s.Expires)
		if err != nil {
			return nil, err
		}
		arguments["expires_ms"] = ms
	}
	return map[string]any{"schedule": arguments}, nil
}

func (r Ref) arguments() (map[string]any, error) {
	if r.ID != "" {
		return map[string]any{"id": r.ID}, nil
	}
	if r.Queue == "" || r.Key == "" {
		return nil, fmt.Errorf("tarry: name the task by Queue and Key, or by ID")
	}
	return map[string]any{"queue": r.Queue, "key": r.Key}, nil
}

// reasonOf cuts a text to the maximum size of a reason, before an incomplete character.
func reasonOf(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", " ")
	if len(text) <= reasonSizeMax {
		return text
	}
	size := reasonSizeMax
	for !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

type traceKey struct{}

// WithTrace returns a context whose tasks carry this trace (W3C Trace Context). A handler's context has its task's trace.
func WithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	trace := map[string]string{"traceparent": traceparent}
	if tracestate != "" {
		trace["tracestate"] = tracestate
	}
	return context.WithValue(ctx, traceKey{}, trace)
}

func traceOf(ctx context.Context) map[string]string {
	trace, _ := ctx.Value(traceKey{}).(map[string]string)
	return trace
}
