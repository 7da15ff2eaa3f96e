package diskio

import (
	"sync"
	"sync/atomic"
)

// syncHelpersMax bounds the goroutines that sync beside the callers, over all calls of one backend. Each
// holds a thread while the disk works; 16 requests keep a device's queue busy.
const syncHelpersMax = 16

// posixFS carries out ops by plain system calls of the calling goroutine.
type posixFS struct {
	tree
	reason  string
	vectors vectorPool
	call    pwritevFunc
	helpers chan struct{} // a token for each sync helper that runs
}

func newPosixFS(reason string) *posixFS {
	return &posixFS{
		tree:    tree{host: probePages()},
		reason:  reason,
		vectors: newVectorPool(),
		call:    pwritev,
		helpers: make(chan struct{}, syncHelpersMax),
	}
}

// Backend implements FS.
func (p *posixFS) Backend() (name, reason string) { return BackendPosix, p.reason }

// Close implements FS.
func (p *posixFS) Close() error { return nil }

// Write implements FS: one vectored call an op, in order.
func (p *posixFS) Write(ops []WriteOp) {
	v := p.vectors.get()
	failed := false
	for i := range ops {
		op := &ops[i]
		if failed {
			if op.Err = earlierError(ops[:i], op.File); op.Err != nil {
				continue
			}
		}
		op.Err = p.writeOne(v, op)
		failed = failed || op.Err != nil
	}
	p.vectors.put(v)
}

func (p *posixFS) writeOne(v *vector, op *WriteOp) error {
	f, ok := op.File.(*file)
	if !ok {
		return ErrForeignFile
	}
	v.begin(op)
	if err := v.writeRest(f.fd.get(), p.call); err != nil {
		return f.fail("write", err)
	}
	return nil
}

// earlierError returns the error of an earlier op on the same file. Only batches that have failed come here,
// so that a walk is good enough.
func earlierError(done []WriteOp, f File) error {
	for i := range done {
		if done[i].Err != nil && done[i].File == f {
			return done[i].Err
		}
	}
	return nil
}

// Sync implements FS: the caller and a bounded number of helpers take files in turn.
func (p *posixFS) Sync(ops []SyncOp) {
	if len(ops) == 1 {
		ops[0].Err = syncOne(ops[0].File)
		return
	}
	var (
		next atomic.Int64
		wait sync.WaitGroup
	)
	work := func() {
		for {
			i := next.Add(1) - 1
			if i >= int64(len(ops)) {
				return
			}
			ops[i].Err = syncOne(ops[i].File)
		}
	}
	for range len(ops) - 1 {
		select {
		case p.helpers <- struct{}{}:
			wait.Go(func() {
				defer func() { <-p.helpers }()
				work()
			})
			continue
		default: // all helpers are out: the caller works alone
		}
		break
	}
	work()
	wait.Wait()
}

func syncOne(f File) error {
	if f, ok := f.(*file); ok {
		return f.Sync()
	}
	return ErrForeignFile
}
