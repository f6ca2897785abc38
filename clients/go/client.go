// Package tarry is the client of Tarry, a durable delay broker: it delivers a task when it is due.
package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"time"
)

const timeoutDefault = 10 * time.Second

// Options of Open. The zero value is usual.
type Options struct {
	Timeout          time.Duration // timeout of each call whose context has no earlier deadline; 0: 10 s
	Token            string        // the token; or TokenFile (mode 0600, read at each request; $TARRY_TOKEN_FILE)
	TokenFile        string
	TLSCA            string // PEM files for wss:// ($TARRY_TLS_CA, $TARRY_TLS_CERT, $TARRY_TLS_KEY)
	TLSCert          string
	TLSKey           string
	UnsafePlainToken bool // allows sending the token over ws:// to another machine, where others can read it
	// Measure gets measurements; README.md has their names.
	Measure func(name string, value float64, labels map[string]any)
	// Inject adds the trace context to the attributes of a scheduled task. Without it, a handler's tasks continue the handler's trace.
	Inject func(ctx context.Context, attributes map[string]string)
}

// Client is a client of one broker or of a pair. Its methods may be called by any goroutine.
type Client struct {
	link    *link
	timeout time.Duration
	hook    func(string, float64, map[string]any)
	inject  func(context.Context, map[string]string)
	changes *committer // schedules, cancels, moves
	settles *committer // acks, nacks, extends, releases: they do not wait behind schedules that a full broker refuses
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// Open makes a client; the broker need not be running. urls has the addresses, separated by commas; "": $TARRY_BROKER, then ws://127.0.0.1:7272.
func Open(urls string, options Options) (*Client, error) {
	if options.Token != "" && options.TokenFile != "" {
		return nil, errors.New("tarry: give Token or TokenFile, not both")
	}
	parsed, err := parseURLs(first(urls, os.Getenv("TARRY_BROKER"), defaultURL))
	if err != nil {
		return nil, err
	}
	config, err := tlsConfig(first(options.TLSCA, os.Getenv("TARRY_TLS_CA")), first(options.TLSCert, os.Getenv("TARRY_TLS_CERT")),
		first(options.TLSKey, os.Getenv("TARRY_TLS_KEY")))
	if err != nil {
		return nil, err
	}
	identity := identity{token: options.Token, tokenFile: options.TokenFile,
		unsafePlainToken: options.UnsafePlainToken || os.Getenv("TARRY_UNSAFE_PLAIN_TOKEN") == "1"}
	if identity.token == "" && identity.tokenFile == "" {
		identity.tokenFile = os.Getenv("TARRY_TOKEN_FILE")
	}
	client := &Client{timeout: options.Timeout, hook: options.Measure, inject: options.Inject}
	if client.timeout == 0 {
		client.timeout = timeoutDefault
	}
	client.link = newLink(parsed, identity, config, client.measure)
	client.changes, client.settles = &committer{client: client}, &committer{client: client}
	return client, nil
}

func (c *Client) measure(name string, value float64, labels map[string]any) {
	if c.hook != nil {
		c.hook(name, value, labels)
	}
}

func (c *Client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

func (c *Client) one(ctx context.Context, kind string, arguments map[string]any) (Result, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	results, err := c.changes.commit(ctx, []map[string]any{{kind: arguments}}, false)
	if err != nil {
		return Result{}, err
	}
	c.measure("tarry.client.operations", 1, map[string]any{"operation": kind, "code": results[0].Code})
	if !results[0].OK() {
		return results[0], &Error{Code: results[0].Code, Message: results[0].Message, Result: &results[0]}
	}
	return results[0], nil
}

// Schedule schedules a task. ErrExists: a live task has the key.
func (c *Client) Schedule(ctx context.Context, task Schedule) (Result, error) {
	op, err := task.operation(ctx, c.inject)
	if err != nil {
		return Result{}, err
	}
	return c.one(ctx, "schedule", op["schedule"].(map[string]any))
}

// ScheduleMany schedules many tasks and returns their results in order; one that was refused is not OK. With isAtomic (at most 8,192 tasks) either all
// are scheduled, or none is and the error is ErrAborted.
func (c *Client) ScheduleMany(ctx context.Context, tasks []Schedule, isAtomic bool) ([]Result, error) {
	ops := make([]map[string]any, len(tasks))
	for at, task := range tasks {
		op, err := task.operation(ctx, c.inject)
		if err != nil {
			return nil, err
		}
		ops[at] = op
	}
	if isAtomic && len(ops) > opsMax {
		return nil, errors.New("tarry: at most 8192 tasks can be scheduled atomically")
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	var results []Result
	for at := 0; at < len(ops); {
		size := len(ops) - at
		if !isAtomic && size > chunkOps {
			size = chunkOps
		}
		some, err := c.changes.commit(ctx, ops[at:at+size], isAtomic)
		if err != nil {
			return results, err
		}
		results, at = append(results, some...), at+size
	}
	for _, result := range results {
		c.measure("tarry.client.operations", 1, map[string]any{"operation": "schedule", "code": result.Code})
		if isAtomic && !result.OK() && result.Code != "ABORTED" {
			return results, &Error{Code: ErrAborted.Code, Message: result.Message, Result: &result}
		}
	}
	return results, nil
}

const chunkOps = 512 // operations per request of ScheduleMany: others need not wait long behind one request

// Cancel cancels a task. Deliveries 0 in the Result: no consumer has seen it, and none will. ErrNotDone: a consumer has it, unless withdraw takes it away.
func (c *Client) Cancel(ctx context.Context, task Ref, withdraw bool) (Result, error) {
	arguments, err := task.arguments()
	if err != nil {
		return Result{}, err
	}
	if withdraw {
		arguments["withdraw"] = true
	}
	return c.one(ctx, "cancel", arguments)
}

// Move gives a task another due time, this long from now.
func (c *Client) Move(ctx context.Context, task Ref, delay time.Duration) (Result, error) {
	return c.move(ctx, task, delay, time.Time{})
}

// MoveTo gives a task another due time.
func (c *Client) MoveTo(ctx context.Context, task Ref, at time.Time) (Result, error) {
	return c.move(ctx, task, 0, at)
}

func (c *Client) move(ctx context.Context, task Ref, delay time.Duration, at time.Time) (Result, error) {
	arguments, err := task.arguments()
	if err == nil {
		err = when(arguments, delay, at)
	}
	if err != nil {
		return Result{}, err
	}
	return c.one(ctx, "move", arguments)
}

// Get returns the task; nil if the broker does not know it.
func (c *Client) Get(ctx context.Context, task Ref) (*View, error) {
	if _, err := task.arguments(); err != nil {
		return nil, err
	}
	path := "/v1/queues/" + url.PathEscape(task.Queue) + "/tasks/" + url.PathEscape(task.Key)
	if task.ID != "" {
		path = "/v1/tasks/" + url.PathEscape(task.ID)
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	text, err := (&ask{method: http.MethodGet, path: path, patience: silence}).run(ctx, c.link)
	if errors.Is(err, ErrNotDone) || errors.Is(err, &Error{Code: "NO_SUCH_QUEUE"}) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var view struct {
		View
		payload
	}
	if err := json.Unmarshal(text, &view); err != nil {
		return nil, err
	}
	view.View.Body = view.payload.bytes()
	return &view.View, nil
}

// Close closes idle connections. Workers end when their contexts do.
func (c *Client) Close() { c.link.http.CloseIdleConnections() }
