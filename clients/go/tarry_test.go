package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

type commit struct {
	key    string
	body   string
	atomic bool
	ops    []map[string]map[string]any
}

// broker answers commits by a script of functions, then accepts all. An answer of status 0 closes the connection.
type broker struct {
	mutex   sync.Mutex
	script  []func(commit) (int, string)
	commits []commit
	*httptest.Server
}

func accepted(c commit) (int, string) {
	results := make([]map[string]any, len(c.ops))
	for at := range results {
		results[at] = map[string]any{"result": "scheduled", "id": "1"}
	}
	text, _ := json.Marshal(map[string]any{"results": results, "aborted": false})
	return 200, string(text)
}

func refuses(status int, code, detail string) func(commit) (int, string) {
	text, _ := json.Marshal(map[string]any{"code": code, "detail": detail})
	return func(commit) (int, string) { return status, string(text) }
}

func lost(commit) (int, string) { return 0, "" }

func newBroker(t *testing.T, script ...func(commit) (int, string)) (*Client, *broker) {
	b := &broker{script: script}
	b.Server = httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		text, _ := io.ReadAll(request.Body)
		c := commit{key: request.Header.Get("Idempotency-Key"), body: string(text)}
		var parsed struct {
			Atomic bool
			Ops    []map[string]map[string]any
		}
		_ = json.Unmarshal(text, &parsed)
		c.atomic, c.ops = parsed.Atomic, parsed.Ops
		b.mutex.Lock()
		b.commits = append(b.commits, c)
		answer := accepted
		if len(b.script) > 0 {
			answer, b.script = b.script[0], b.script[1:]
		}
		b.mutex.Unlock()
		status, reply := answer(c)
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		writer.WriteHeader(status)
		_, _ = io.WriteString(writer, reply)
	}))
	t.Cleanup(b.Close)
	client, err := Open(b.URL, Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return client, b
}

func schedule(client *Client, key string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := client.Schedule(ctx, Schedule{Queue: "q", Key: key})
	return err
}

func expect(t *testing.T, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("found %v, not %v", found, wanted)
	}
}

func TestOperationsThatComeTogetherShareACommit(t *testing.T) {
	slow := func(c commit) (int, string) { time.Sleep(100 * time.Millisecond); return accepted(c) }
	client, b := newBroker(t, slow)
	var all sync.WaitGroup
	for count := 0; count < 500; count++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := schedule(client, "", 10*time.Second); err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if len(b.commits) > 50 {
		t.Fatalf("%d commits", len(b.commits))
	}
}

func TestALostCommitIsRepeatedUnderItsKey(t *testing.T) { // ONCE-1
	client, b := newBroker(t, lost, refuses(503, "busy", ""), refuses(421, "not_primary", ""), refuses(429, "busy", ""), refuses(500, "failed", ""))
	if err := schedule(client, "k", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if len(b.commits) < 6 {
		t.Fatalf("%d commits", len(b.commits))
	}
	for _, c := range b.commits {
		expect(t, []string{c.key, c.body}, []string{b.commits[0].key, b.commits[0].body})
	}
	if err := schedule(client, "k", 10*time.Second); err != nil || b.commits[len(b.commits)-1].key == b.commits[0].key {
		t.Fatalf("%v: another commit has another key", err)
	}
}

func TestWhenAllWasRefusedNothingWasDone(t *testing.T) {
	script := make([]func(commit) (int, string), 1000)
	for at := range script {
		script[at] = refuses(503, "busy", "the disk is full")
	}
	client, _ := newBroker(t, script...)
	for {
		err := schedule(client, "", 200*time.Millisecond)
		if !strings.Contains(err.Error(), "the disk is full") {
			t.Fatal(err)
		}
		if errors.Is(err, ErrUnavailable) {
			return
		}
		if !errors.Is(err, ErrUnknown) { // a request may be in flight at the deadline
			t.Fatal(err)
		}
	}
}

func TestAnUnknownOutcomeIsCalledSo(t *testing.T) {
	silent := func(commit) (int, string) { time.Sleep(300 * time.Millisecond); return 0, "" }
	client, _ := newBroker(t, silent)
	if err := schedule(client, "", 100*time.Millisecond); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	client, _ = newBroker(t, refuses(410, "forgotten", ""))
	if err := schedule(client, "", time.Second); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
}

func TestAShortTimeoutDoesNotEndTheOthersOfItsCommit(t *testing.T) {
	client, b := newBroker(t, func(c commit) (int, string) { time.Sleep(50 * time.Millisecond); return accepted(c) },
		func(commit) (int, string) { time.Sleep(400 * time.Millisecond); return 0, "" })
	first := make(chan error)
	go func() { first <- schedule(client, "first", 10*time.Second) }()
	time.Sleep(10 * time.Millisecond) // the next two gather meanwhile
	patient := make(chan error)
	go func() { patient <- schedule(client, "patient", 10*time.Second) }()
	if err := schedule(client, "short", 200*time.Millisecond); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := <-patient; err != nil {
		t.Fatal(err)
	}
	expect(t, b.commits[1].key, b.commits[len(b.commits)-1].key)
}

func TestAnOperationThatSpoilsTheRequestDoesNotHurtTheOthers(t *testing.T) {
	spoilt := func(c commit) (int, string) {
		time.Sleep(20 * time.Millisecond)
		if strings.Contains(c.body, "bad") {
			return refuses(400, "invalid", "no")(c)
		}
		return accepted(c)
	}
	client, _ := newBroker(t, spoilt, spoilt, spoilt, spoilt, spoilt, spoilt, spoilt)
	errs := map[string]error{}
	var mutex sync.Mutex
	var all sync.WaitGroup
	for _, key := range []string{"good", "bad", "fine"} {
		key := key
		all.Add(1)
		go func() {
			defer all.Done()
			err := schedule(client, key, 10*time.Second)
			mutex.Lock()
			errs[key] = err
			mutex.Unlock()
		}()
	}
	all.Wait()
	var refused *Error
	if errs["good"] != nil || errs["fine"] != nil || !errors.As(errs["bad"], &refused) || refused.Code != "INVALID" {
		t.Fatal(errs)
	}
}

func TestAcksDoNotWaitBehindRefusedSchedules(t *testing.T) {
	full := func(c commit) (int, string) {
		if _, is := c.ops[0]["schedule"]; is {
			return refuses(503, "busy", "")(c)
		}
		return accepted(c)
	}
	script := make([]func(commit) (int, string), 200)
	for at := range script {
		script[at] = full
	}
	client, _ := newBroker(t, script...)
	waiting := make(chan error, 1)
	go func() { waiting <- schedule(client, "", time.Second) }()
	ctx, cancel := client.within(context.Background())
	defer cancel()
	if _, err := client.settles.commit(ctx, []map[string]any{{"ack": map[string]any{}}}, false); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waiting:
		t.Fatal(err)
	default:
	}
	if err := <-waiting; !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
}

func TestTimesAndReasons(t *testing.T) {
	for duration, wanted := range map[time.Duration]int64{0: 0, time.Microsecond: 1, 1500 * time.Millisecond: 1500} {
		found, err := milliseconds("x", duration)
		expect(t, []any{found, err}, []any{wanted, nil})
	}
	expect(t, reasonOf(strings.Repeat("ü", 200)), strings.Repeat("ü", 127))
	expect(t, reasonOf("a\x00b\xff"), "a b\uFFFD")
	for _, task := range []Schedule{{Delay: -1}, {Delay: 1, At: time.Now()}, {Body: []byte("a"), JSON: 1}, {Expires: -1}} {
		if _, err := task.operation(context.Background(), nil); err == nil {
			t.Errorf("%v", task)
		}
	}
	for _, urls := range []string{"ftp://a:1", "ws://", "ws://a:1/path", "ws://a:1,", "a"} {
		if _, err := Open(urls, Options{}); err == nil {
			t.Errorf("%v", urls)
		}
	}
}

func TestTheTraceGoesAlongUnlessTheProgramSaysAnother(t *testing.T) {
	ctx := WithTrace(context.Background(), "mine", "")
	sent := func(task Schedule, inject func(context.Context, map[string]string)) string {
		op, err := task.operation(ctx, inject)
		if err != nil {
			t.Fatal(err)
		}
		return op["schedule"].(map[string]any)["attributes"].(map[string]string)["traceparent"]
	}
	expect(t, sent(Schedule{}, nil), "mine")
	expect(t, sent(Schedule{}, func(_ context.Context, attributes map[string]string) { attributes["traceparent"] = "hook's" }), "hook's")
	expect(t, sent(Schedule{Attributes: map[string]string{"traceparent": "own"}}, nil), "own")
}

func TestATokenIsNotSentInTheClearAndItsFileIsPrivate(t *testing.T) {
	bearer := func(i identity, urls string) (string, error) {
		parsed, err := parseURLs(urls)
		if err != nil {
			t.Fatal(err)
		}
		return i.bearer(parsed[0])
	}
	for _, local := range []string{"ws://127.0.0.1:1", "ws://[::1]:1", "wss://shop.example:1"} {
		if found, err := bearer(identity{token: "t"}, local); found != "t" || err != nil {
			t.Error(local, err)
		}
	}
	if _, err := bearer(identity{token: "t"}, "ws://shop.example:1"); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if _, err := bearer(identity{tokenFile: file}, "wss://a:1"); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	for _, text := range []string{"one\n", "two"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := bearer(identity{tokenFile: file}, "wss://a:1"); found != strings.TrimSpace(text) || err != nil {
			t.Error(found, err)
		}
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := bearer(identity{tokenFile: file}, "wss://a:1"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
}

func TestAHandlerThatPanicsIsAHandlerThatFailed(t *testing.T) {
	w := &worker{handler: func(context.Context, *Task) error { panic("no card") }}
	err := w.call(&held{task: &Task{}, ctx: context.Background()})
	if err == nil || err.Error() != "panic: no card" {
		t.Fatal(err)
	}
}
