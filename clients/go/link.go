package tarry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultURL     = "ws://127.0.0.1:7272"
	dialPatience   = time.Second     // limit for connecting if there are other addresses
	dialAlone      = 5 * time.Second // the same timeout if there are no other addresses
	silence        = 5 * time.Second // a request without an answer for this long is repeated
	againMin       = 25 * time.Millisecond
	againMax       = 400 * time.Millisecond
	backoffMin     = 5 * time.Millisecond // after "busy" and "stopping", doubled each time
	backoffMax     = 100 * time.Millisecond
	answerSizeMax  = 64 << 20
	idlePerAddress = 8
)

// A link knows the addresses and which of them is tried next.
type link struct {
	urls     []*url.URL
	http     *http.Client
	identity identity
	measure  func(name string, value float64, labels map[string]any)

	mutex  sync.Mutex
	index  int
	serial int          // counts changes of the address
	tried  map[int]bool // addresses that were of no use in this round
	rounds int
	said   map[int]string // address → why it was of no use
	denied map[int]bool   // addresses that do not accept this client
}

// identity is what the client shows to a broker.
type identity struct {
	token, tokenFile string
	unsafePlainToken bool
}

func (i identity) bearer(to *url.URL) (string, error) {
	if i.token == "" && i.tokenFile == "" {
		return "", nil
	}
	if to.Scheme == "http" && !isLocal(to.Hostname()) && !i.unsafePlainToken {
		return "", &Error{Code: "DENIED", Message: "the token is not sent over ws:// to " + to.Hostname() +
			", where others can read it: use wss://, or set UnsafePlainToken"}
	}
	if i.token != "" {
		return i.token, nil
	}
	return readToken(i.tokenFile)
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readToken reads the file at each request, so it may be replaced.
func readToken(path string) (string, error) {
	about, err := os.Stat(path)
	if err == nil && about.Mode().Perm()&0o077 != 0 {
		return "", &Error{Code: "DENIED", Message: fmt.Sprintf("other users may read the token file %s: chmod 600 %s", path, path)}
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", &Error{Code: "DENIED", Message: fmt.Sprintf("the token file %s cannot be read: %v", path, err)}
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", &Error{Code: "DENIED", Message: fmt.Sprintf("the token file %s must hold one token without blanks", path)}
	}
	return token, nil
}

func tlsConfig(ca, cert, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("tarry: TLSCA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tarry: TLSCA: %s has no certificate", ca)
		}
	}
	if cert != "" {
		if key == "" {
			key = cert
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key) // at each handshake, so the files may be replaced
			return &pair, err
		}
	}
	return config, nil
}

// parseURLs accepts ws:// and wss:// as the other clients do, and http:// and https://.
func parseURLs(text string) ([]*url.URL, error) {
	var urls []*url.URL
	for _, one := range strings.Split(text, ",") {
		parsed, err := url.Parse(strings.TrimSpace(one))
		if err != nil || parsed.Hostname() == "" || parsed.Path != "" && parsed.Path != "/" || parsed.RawQuery != "" {
			return nil, fmt.Errorf("tarry: the broker's address %q must look like ws://host:7272 or wss://host:7272", one)
		}
		switch parsed.Scheme {
		case "ws", "http":
			parsed.Scheme = "http"
		case "wss", "https":
			parsed.Scheme = "https"
		default:
			return nil, fmt.Errorf("tarry: the broker's address %q must begin with ws:// or wss://", one)
		}
		parsed.Path = ""
		urls = append(urls, parsed)
	}
	return urls, nil
}

func newLink(urls []*url.URL, identity identity, config *tls.Config, measure func(string, float64, map[string]any)) *link {
	patience := dialPatience
	if len(urls) == 1 {
		patience = dialAlone
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: patience, KeepAlive: time.Second}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: patience,
		MaxIdleConnsPerHost: idlePerAddress,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &link{urls: urls, http: &http.Client{Transport: transport, CheckRedirect: noRedirects}, identity: identity, measure: measure,
		tried: map[int]bool{}, said: map[int]string{}, denied: map[int]bool{}}
}

func (l *link) current() (int, int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.index, l.serial
}

// useful notes that the broker handled a request.
func (l *link) useful(index int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.tried, l.rounds = map[int]bool{}, 0
	delete(l.said, index)
	delete(l.denied, index)
}

// leave goes on to the next address, or to the one that the broker named, and returns how long to wait before. `serial` is of the caller's attempt:
// if others have gone on already, it does nothing.
func (l *link) leave(serial int, hint, why string, isDenied bool) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if serial != l.serial {
		return 0
	}
	l.measure("tarry.client.connections", -1, map[string]any{"address": l.urls[l.index].String()})
	l.said[l.index] = why
	if isDenied {
		l.denied[l.index] = true
	} else {
		delete(l.denied, l.index)
	}
	l.serial++
	l.tried[l.index] = true
	order := []int{}
	for index := range l.urls {
		if hinted, err := parseURLs(hint); err == nil && hinted[0].String() == l.urls[index].String() {
			order = append(order, index)
		}
	}
	for step := 1; step <= len(l.urls); step++ {
		order = append(order, (l.index+step)%len(l.urls))
	}
	for _, index := range order {
		if !l.tried[index] {
			l.index = index
			return 0
		}
	}
	l.index = (l.index + 1) % len(l.urls)
	l.tried = map[int]bool{}
	l.rounds++
	pause := againMax
	if l.rounds < 5 {
		pause = againMin << l.rounds
	}
	return pause/2 + time.Duration(rand.Int63n(int64(pause)/2+1))
}

func (l *link) isDeniedByAll() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.denied) == len(l.urls)
}

func (l *link) explain() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var all []string
	for index, why := range l.said {
		all = append(all, l.urls[index].String()+": "+why)
	}
	if len(all) == 0 {
		return "no broker has replied"
	}
	return strings.Join(all, "; ")
}

// problem is how the broker refuses (RFC 9457).
type problem struct {
	Code    string  `json:"code"`
	Detail  string  `json:"detail"`
	Primary string  `json:"primary"`
	Result  *Result `json:"result"`
}

// An ask is one request, repeated until it is answered.
type ask struct {
	method, path, key string
	body              []byte
	changes           bool
	patience          time.Duration // for one attempt
	unanswered        int           // attempts that may have been executed
	said              string
}

// run returns the answer's body, or an *Error. At the end of ctx: ErrUnavailable or ErrUnknown; then it can go on.
func (a *ask) run(ctx context.Context, l *link) ([]byte, error) {
	backoff := backoffMin
	for {
		index, serial := l.current()
		status, body, err := a.attempt(ctx, l, l.urls[index])
		pause := time.Duration(0)
		var refused *Error
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, a.late(l)
		case errors.As(err, &refused): // no token to show
			pause = l.leave(serial, "", refused.Message, true)
		case err != nil:
			pause = l.leave(serial, "", err.Error(), false)
		default:
			var told problem
			if status >= 300 {
				_ = json.Unmarshal(body, &told)
			}
			a.said = fmt.Sprintf("%s: %s", l.urls[index], told.Detail)
			switch status {
			case http.StatusMisdirectedRequest:
				a.unanswered--
				pause = l.leave(serial, told.Primary, told.Detail, false)
			case http.StatusTooManyRequests:
				a.unanswered--
				pause = l.leave(serial, "", told.Detail, false)
			case http.StatusUnauthorized:
				a.unanswered--
				pause = l.leave(serial, "", fmt.Sprintf("the broker does not accept this client's token or certificate (HTTP %d)", status), true)
			case http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusRequestTimeout:
				if status != http.StatusInternalServerError {
					a.unanswered-- // this send was not executed
				}
				pause, backoff = backoff, min(2*backoff, backoffMax)
			default:
				l.useful(index)
				if status < 300 {
					return body, nil
				}
				return nil, refusal(status, told)
			}
		}
		if l.isDeniedByAll() {
			return nil, &Error{Code: "DENIED", Message: l.explain()}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, a.late(l)
		}
	}
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func refusal(status int, told problem) error {
	code := strings.ToUpper(told.Code)
	if code == "" {
		code = fmt.Sprintf("HTTP_%d", status)
	}
	if told.Result != nil {
		told.Result.settle()
	}
	return &Error{Code: code, Message: told.Detail, Result: told.Result}
}

func (a *ask) late(l *link) error {
	why := a.said
	if why == "" {
		why = l.explain()
	}
	if a.changes && a.unanswered > 0 {
		return &Error{Code: ErrUnknown.Code, Message: ErrUnknown.Message + ": " + why}
	}
	return &Error{Code: ErrUnavailable.Code, Message: ErrUnavailable.Message + ": " + why}
}

func (a *ask) attempt(ctx context.Context, l *link, to *url.URL) (int, []byte, error) {
	token, err := l.identity.bearer(to)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, a.method, to.String()+a.path, bytes.NewReader(a.body))
	if err != nil {
		return 0, nil, err
	}
	if a.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if a.key != "" {
		request.Header.Set("Idempotency-Key", a.key)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	var isConnected atomic.Bool // otherwise nothing was sent
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}
	answer, err := l.http.Do(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if isConnected.Load() {
		a.unanswered++
	}
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerSizeMax))
	return answer.StatusCode, body, err
}
