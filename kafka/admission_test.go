package kafka

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// filler makes random requests through reflection.
type filler struct {
	rnd   *rand.Rand
	count func() int    // elements of an array
	text  func() int    // bytes of a string
	tags  func() int    // unknown tagged fields of a struct
	name  func() string // a string; nil: random letters
}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if f.rnd.IntN(8) == 0 {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for range f.tags() {
				tags.Set(f.rnd.Uint32(), make([]byte, f.text()))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				f.fill(v.Field(i))
			}
		}
	case reflect.Slice:
		n := f.count()
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.String:
		if f.name != nil {
			v.SetString(f.name())
			return
		}
		b := make([]byte, f.text())
		for i := range b {
			b[i] = 'a' + byte(f.rnd.IntN(26))
		}
		v.SetString(string(b))
	case reflect.Bool:
		v.SetBool(f.rnd.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.rnd.Uint64() >> (64 - v.Type().Bits())))
	case reflect.Uint8:
		v.SetUint(uint64(f.rnd.IntN(256)))
	}
}

func newFiller(t *testing.T) *filler {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	return &filler{rnd: rnd,
		count: func() int { return rnd.IntN(5) },
		text:  func() int { return rnd.IntN(40) },
		tags:  func() int { return max(0, rnd.IntN(12)-9) }}
}

// body makes a random request of one version. A pointer that the version cannot carry as null is filled.
func (f *filler) body(key, version int16) []byte {
	r := kmsg.RequestForKey(key)
	r.SetVersion(version)
	f.fill(reflect.ValueOf(r).Elem())
	r.SetVersion(version)
	if m, ok := r.(*kmsg.MetadataRequest); ok && version < 10 {
		for i := range m.Topics {
			if m.Topics[i].Topic == nil {
				m.Topics[i].Topic = kmsg.StringPtr("t")
			}
		}
	}
	return r.AppendTo(nil)
}

func decode(key, version int16, body []byte) (kmsg.Request, error) {
	r := kmsg.RequestForKey(key)
	r.SetVersion(version)
	return r, r.ReadFrom(body)
}

func TestEstimateAcceptsWhatKmsgWrites(t *testing.T) {
	f := newFiller(t)
	for _, a := range workerAPIs() {
		for version := a.min; version <= a.max; version++ {
			for range 50 {
				body := f.body(a.key, version)
				if _, err := decode(a.key, version, body); err != nil {
					t.Fatalf("%s v%d: kmsg does not read itself: %v", a.name, version, err)
				}
				w := a.walk(version, body)
				if w.err != nil {
					t.Fatalf("%s v%d: %v in % x", a.name, version, w.err, body)
				}
				if len(w.src) != 0 {
					t.Fatalf("%s v%d: %d bytes left of % x", a.name, version, len(w.src), body)
				}
			}
		}
	}
}

// A07: a request cut at any byte is malformed; junk behind it is ignored.
func TestA07CutRequestIsMalformed(t *testing.T) {
	f := newFiller(t)
	for _, a := range workerAPIs() {
		for version := a.min; version <= a.max; version++ {
			body := f.body(a.key, version)
			for n := range body {
				if _, err := a.estimate(version, body[:n]); err == nil {
					t.Fatalf("%s v%d: accepted when cut at %d of % x", a.name, version, n, body)
				}
			}
			if _, err := a.estimate(version, append(body, "junk..."...)); err != nil {
				t.Fatalf("%s v%d: junk behind the request: %v", a.name, version, err)
			}
		}
	}
}

// heapOf measures what f allocates. It runs f again, up to three times, while it allocates more than
// expected: the runtime allocates now and then too.
func heapOf(expected int64, f func()) int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, int64(after.TotalAlloc-before.TotalAlloc)); least <= expected {
			break
		}
	}
	return least
}

func TestEstimateCoversHeap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector pads allocations")
	}
	f := newFiller(t)
	counts := map[string]func() int{
		"few":  func() int { return 1 + f.rnd.IntN(6) },
		"many": func() int { return 12 + f.rnd.IntN(12) },
	}
	texts := map[string]func() int{
		"empty": func() int { return 0 },
		"short": func() int { return 8 + f.rnd.IntN(24) },
		"long":  func() int { return 200 },
	}
	tags := map[string]func() int{
		"none": func() int { return 0 },
		"one":  func() int { return 1 },
		"some": func() int { return f.rnd.IntN(30) },
	}
	for _, a := range workerAPIs() {
		for version := a.min; version <= a.max; version++ {
			for countName, count := range counts {
				for textName, text := range texts {
					for tagName, tag := range tags {
						f.count, f.text, f.tags = count, text, tag
						body := f.body(a.key, version)
						w := a.walk(version, body)
						var r kmsg.Request
						took := heapOf(w.decoded, func() { r, _ = decode(a.key, version, body) })
						runtime.KeepAlive(r)
						if w.err != nil || w.decoded < took {
							t.Errorf("%s v%d %s/%s/%s: estimate %d, took %d: %v",
								a.name, version, countName, textName, tagName, w.decoded, took, w.err)
						}
						if w.decoded > 3*took+512 {
							t.Errorf("%s v%d %s/%s/%s: estimate %d is over three times the %d it took",
								a.name, version, countName, textName, tagName, w.decoded, took)
						}
					}
				}
			}
		}
	}
}

// A valid Metadata frame that kmsg blows up to many times its size is seen for what it is.
func TestEstimateOfDenseMetadata(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector pads allocations")
	}
	a := workerAPI(t, 3)
	const n = 900_000
	body := binary.BigEndian.AppendUint32(nil, n)
	body = append(body, make([]byte, 2*n+1)...) // empty names
	got, err := a.estimate(4, body)
	if err != nil {
		t.Fatal(err)
	}
	if took := heapOf(got, func() { decode(3, 4, body) }); got < took || took < 20*int64(len(body)) {
		t.Errorf("estimate %d, took %d of a frame of %d bytes", got, took, len(body))
	}
}

// A09: frames that announce more than they hold, or more than Kafka takes, are malformed at once.
func TestA09AnnouncedSizesAreMalformed(t *testing.T) {
	f := func(key, version int16, want error, body ...byte) {
		t.Helper()
		a := workerAPI(t, key)
		var err error
		if took := heapOf(1<<16, func() { _, err = a.estimate(version, body) }); took > 1<<16 {
			t.Errorf("%s v%d: took %d bytes", a.name, version, took)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s v%d % x: %v, want %v", a.name, version, body[:min(len(body), 16)], err, want)
		}
	}
	million := func(n uint32, compact bool) []byte {
		if compact {
			return append(binary.AppendUvarint(nil, uint64(n)+1), make([]byte, 4_000_000)...)
		}
		return append(binary.BigEndian.AppendUint32(nil, n), make([]byte, 4_000_000)...)
	}
	f(3, 1, errElements, 0x7f, 0xff, 0xff, 0xff)
	f(3, 9, errLength, 0xff, 0xff, 0xff, 0xff, 0x0f)
	f(3, 1, errElements, million(1_000_001, false)...)
	f(3, 1, nil, million(1_000_000, false)...)
	f(3, 9, errElements, million(1_000_001, true)...)
	f(3, 0, errNull, 0xff, 0xff, 0xff, 0xff)
	f(3, 1, nil, 0xff, 0xff, 0xff, 0xfe)                            // M20: -2 is null too
	f(3, 4, errLength, 0, 0, 0, 1, 0x7f, 0xff, 'a')                 // a string beyond the frame
	f(3, 4, errNull, 0, 0, 0, 1, 0xff, 0xff, 1)                     // a null name
	f(3, 9, errLength, 1, 0, 0, 0, 1, 0, 0x7f)                      // a tag beyond the frame
	f(3, 9, errTags, append([]byte{1, 0, 0, 0}, 0x91, 0x4e, 0)...)  // 10,001 tags
	f(3, 9, errTags, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f)      // 2^32-1 tags
	f(3, 9, errTruncated, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f) // a varint of more than 32 bits
	f(75, 0, errNull, 1, 0, 0, 0, 0, 0xfe)
	f(75, 0, nil, 1, 0, 0, 0, 0, 0xff, 0)
	f(32, 4, errTruncated)
}

func TestEstimateDoesNotAllocate(t *testing.T) {
	f := newFiller(t)
	for _, a := range workerAPIs() {
		body := f.body(a.key, a.max)
		if n := testing.AllocsPerRun(20, func() { a.estimate(a.max, body) }); n != 0 {
			t.Errorf("%s: %v allocations", a.name, n)
		}
	}
}

func workerAPI(t testing.TB, key int16) *api {
	for _, a := range workerAPIs() {
		if a.key == key {
			return &a
		}
	}
	t.Fatalf("no API %d", key)
	return nil
}

func FuzzAdmission(f *testing.F) {
	fill := &filler{rnd: rand.New(rand.NewPCG(7, 7)), count: func() int { return 2 }, text: func() int { return 3 }, tags: func() int { return 1 }}
	apis := workerAPIs()
	for i, a := range apis {
		for version := a.min; version <= a.max; version++ {
			f.Add(uint8(i), uint8(version), fill.body(a.key, version))
		}
	}
	f.Fuzz(func(t *testing.T, i, v uint8, body []byte) {
		a := &apis[int(i)%len(apis)]
		version := a.min + int16(v)%(a.max-a.min+1)
		w := a.walk(version, body)
		if w.err != nil {
			return
		}
		r, err := decode(a.key, version, body)
		if err != nil {
			t.Fatalf("%s v%d: accepted, but kmsg says %v", a.name, version, err)
		}
		if len(w.src) > 0 {
			return
		}
		if again := r.AppendTo(nil); w.decoded <= 0 || len(again) > 2*len(body)+64 {
			t.Fatalf("%s v%d: % x became % x", a.name, version, body, again)
		}
	})
}
