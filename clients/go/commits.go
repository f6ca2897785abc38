package tarry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	opsMax        = 8192
	gatherSizeMax = 4 << 20
)

// An item is the operations of one call, which stay together.
type item struct {
	ops      []json.RawMessage
	size     int
	isAtomic bool
	isAlone  bool // does not share its commit
	until    time.Time
	done     chan struct{}
	results  []Result
	err      error
}

func (i *item) end(results []Result, err error) {
	i.results, i.err = results, err
	close(i.done)
}

// A committer has one commit in flight. Operations that arrive meanwhile gather for the next one, so they take effect in the order of submission, and
// under load thousands share one request. A commit keeps its Idempotency-Key until it is answered, so the broker recognises a repeated one.
type committer struct {
	client *Client

	mutex     sync.Mutex
	queue     []*item
	isRunning bool
}

func (c *committer) commit(ctx context.Context, ops []map[string]any, isAtomic bool) ([]Result, error) {
	until, _ := ctx.Deadline()
	item := &item{isAtomic: isAtomic, isAlone: isAtomic, until: until, done: make(chan struct{})}
	for _, op := range ops {
		text, err := json.Marshal(op)
		if err != nil {
			return nil, err
		}
		item.ops = append(item.ops, text)
		item.size += len(text)
	}
	c.mutex.Lock()
	c.queue = append(c.queue, item)
	if !c.isRunning {
		c.isRunning = true
		go c.run()
	}
	c.mutex.Unlock()
	select {
	case <-item.done:
	case <-ctx.Done():
		if c.withdraw(item) {
			return nil, &Error{Code: ErrUnavailable.Code, Message: ErrUnavailable.Message + ": " + c.client.link.explain()}
		}
		if ctx.Err() == context.Canceled {
			return nil, &Error{Code: ErrUnknown.Code, Message: "the caller's context was cancelled; the operation may have taken effect"}
		}
		<-item.done // the item's commit also ends at the deadline, and then reports what is known
	}
	return item.results, item.err
}

// withdraw removes an item that still waits for the commits before it.
func (c *committer) withdraw(gone *item) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for at, item := range c.queue {
		if item == gone {
			c.queue = append(c.queue[:at], c.queue[at+1:]...)
			return true
		}
	}
	return false
}

func (c *committer) run() {
	for {
		items := c.gather()
		if items == nil {
			return
		}
		c.send(items)
	}
}

func (c *committer) gather() []*item {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	count, size, taken := 0, 0, 0
	for _, item := range c.queue {
		count, size = count+len(item.ops), size+item.size
		if taken > 0 && (c.queue[0].isAlone || item.isAlone || count > opsMax || size > gatherSizeMax) {
			break
		}
		taken++
	}
	if taken == 0 {
		c.isRunning = false
		return nil
	}
	items := append([]*item(nil), c.queue[:taken]...)
	c.queue = c.queue[taken:]
	return items
}

func (c *committer) putBack(items []*item) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.queue = append(append([]*item(nil), items...), c.queue...)
}

func newKey() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes[:])
}

// send commits the operations of these items; each is answered, or back in the queue.
func (c *committer) send(items []*item) {
	started := time.Now()
	var ops []json.RawMessage
	for _, item := range items {
		ops = append(ops, item.ops...)
	}
	body, err := json.Marshal(map[string]any{"atomic": items[0].isAtomic, "ops": ops})
	if err != nil {
		for _, item := range items {
			item.end(nil, err)
		}
		return
	}
	ask := &ask{method: http.MethodPost, path: "/v1/commit", key: newKey(), body: body, changes: true, patience: silence}
	for len(items) > 0 {
		until := items[0].until
		for _, item := range items {
			if item.until.Before(until) {
				until = item.until
			}
		}
		ctx, cancel := context.WithDeadline(context.Background(), until)
		text, err := ask.run(ctx, c.client.link)
		cancel()
		isUnavailable := errors.Is(err, ErrUnavailable)
		if isUnavailable || errors.Is(err, ErrUnknown) {
			var left []*item
			for _, item := range items {
				if item.until.After(until) {
					left = append(left, item)
				} else {
					item.end(nil, err)
				}
			}
			items = left
			if isUnavailable { // nothing was executed: the other items are sent again
				c.putBack(items)
				return
			}
			continue
		}
		c.client.measure("tarry.client.commit.seconds", time.Since(started).Seconds(), map[string]any{"operations": len(ops)})
		c.answer(items, text, err)
		return
	}
}

func (c *committer) answer(items []*item, text []byte, err error) {
	var answer struct{ Results []Result }
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "FORGOTTEN" {
		err = &Error{Code: ErrUnknown.Code, Message: "the broker has forgotten whether the operation took effect"}
	} else if refused != nil && len(items) > 1 { // one bad operation refuses the whole request: send each alone
		for _, item := range items {
			item.isAlone = true
		}
		c.putBack(items)
		return
	}
	at := 0
	for _, item := range items {
		if err == nil && at+len(item.ops) > len(answer.Results) {
			err = &Error{Code: "PROTOCOL", Message: "the broker's answer lacks results"}
		}
		if err != nil {
			item.end(nil, err)
			continue
		}
		results := answer.Results[at : at+len(item.ops)]
		for each := range results {
			results[each].settle()
		}
		at += len(item.ops)
		item.end(results, nil)
	}
}
