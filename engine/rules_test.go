package engine

import (
	"errors"
	"math"
	"testing"
	"time"

	"millrace/engine/model"
)

func TestF09EpochEnds(t *testing.T) {
	var l epochList
	for _, e := range []epochEntry{{0, 0}, {2, 100}, {5, 130}} {
		l = l.assign(e.epoch, e.start)
	}
	check := func(ask int32, logEnd int64, epoch int32, end int64) {
		t.Helper()
		if e, o := l.endOffset(ask, logEnd); e != epoch || o != end {
			t.Errorf("epoch %d: got (%d, %d), want (%d, %d)", ask, e, o, epoch, end)
		}
	}
	check(5, 150, 5, 150)
	check(3, 150, 2, 130)
	check(2, 150, 2, 130)
	check(1, 150, 0, 100)
	check(0, 150, 0, 100)
	check(7, 150, -1, -1)
	check(-1, 150, -1, -1)
	l = l.truncateStart(120)
	check(0, 150, 0, 120)
	check(1, 150, 1, 120)
	check(2, 150, 2, 130)
	l = l.assign(6, 150)
	check(5, 150, 5, 150)
	check(6, 150, 6, 150)
	if l.at(119) != -1 || l.at(125) != 2 || l.at(149) != 5 || l.at(151) != 6 {
		t.Errorf("epochs at offsets: %v", l)
	}
	l = l.truncateEnd(140)
	check(5, 140, 5, 140)
	check(6, 140, 6, 140)
	if l = l.assign(7, 140); len(l) != 3 || l.latest() != 7 {
		t.Errorf("an epoch that wrote nothing stays: %v", l)
	}
}

// producerDriver feeds a table as a shard does.
type producerDriver struct {
	t     *testing.T
	table producerTable
	next  int64
}

func (d *producerDriver) send(id int64, epoch int16, sequence, n int32) (base int64, duplicate bool, err error) {
	h := model.AppendHeader{ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence,
		LastSequence: nextSequence(sequence, n-1), Kind: model.KindData}
	repeated, err := d.table.check(&h)
	if err != nil {
		return -1, false, err
	}
	if repeated != nil {
		return repeated.baseOffset, true, nil
	}
	h.BaseOffset, h.LastOffset = d.next, d.next+int64(n)-1
	var undo producerUndo
	d.table.apply(&h, d.next, &undo)
	d.next += int64(n)
	return h.BaseOffset, false, nil
}

func (d *producerDriver) want(id int64, epoch int16, sequence, n int32, base int64, duplicate bool, want error) {
	d.t.Helper()
	got, again, err := d.send(id, epoch, sequence, n)
	if !errors.Is(err, want) || err == nil && (got != base || again != duplicate) {
		d.t.Errorf("producer %d epoch %d sequence %d+%d: got %d, %v, %v", id, epoch, sequence, n, got, again, err)
	}
}

func TestD01ToD12Producers(t *testing.T) {
	d := producerDriver{t: t}
	for i := range int32(5) {
		d.want(1, 0, i*10, 10, int64(i)*10, false, nil)
	}
	for i := range int32(5) {
		d.want(1, 0, i*10, 10, int64(i)*10, true, nil) // D01
	}
	d.want(1, 0, 50, 10, 50, false, nil)
	d.want(1, 0, 60, 10, 60, false, nil)
	d.want(1, 0, 0, 10, -1, false, ErrOutOfOrderSequence)  // D02
	d.want(1, 0, 75, 10, -1, false, ErrOutOfOrderSequence) // D03
	d.want(1, 0, 70, 10, 70, false, nil)
	d.want(1, 0, 70, 5, -1, false, ErrOutOfOrderSequence)  // D12
	d.want(1, 0, 75, 10, -1, false, ErrOutOfOrderSequence) // D12
	d.want(1, 1, 3, 1, -1, false, ErrOutOfOrderSequence)   // D06
	d.want(1, 1, 0, 1, 80, false, nil)
	d.want(1, 0, 80, 1, -1, false, ErrInvalidProducerEpoch)
	d.want(2, 0, 5, 1, 81, false, nil) // M05
	d.want(3, 0, math.MaxInt32-4, 5, 82, false, nil)
	d.want(3, 0, 0, 3, 87, false, nil) // after the largest sequence comes 0
	d.want(3, 0, math.MaxInt32-4, 5, 82, true, nil)
	d.want(4, 0, math.MaxInt32-1, 4, 90, false, nil) // over the border
	d.want(4, 0, 2, 1, 94, false, nil)
}

func TestProducerRevert(t *testing.T) {
	d := producerDriver{t: t}
	for i := range int32(7) {
		d.want(1, 0, i, 1, int64(i), false, nil)
	}
	var undo [3]producerUndo
	for i := range undo {
		h := model.AppendHeader{ProducerID: 1, ProducerEpoch: 0, BaseSequence: 7 + int32(i), LastSequence: 7 + int32(i),
			BaseOffset: d.next + int64(i), LastOffset: d.next + int64(i)}
		if i == 2 {
			h.ProducerEpoch, h.BaseSequence, h.LastSequence = 1, 0, 0
		}
		d.table.apply(&h, 0, &undo[i])
	}
	var fresh producerUndo
	d.table.apply(&model.AppendHeader{ProducerID: 5}, 0, &fresh)
	d.table.revert(&fresh)
	for i := len(undo) - 1; i >= 0; i-- {
		d.table.revert(&undo[i])
	}
	if d.table.byID[5] != nil {
		t.Error("a producer stays that wrote nothing")
	}
	for i := range int32(5) {
		d.want(1, 0, 2+i, 1, int64(2+i), true, nil)
	}
	d.want(1, 0, 7, 1, 7, false, nil)
}

func TestD16ProducersAreBounded(t *testing.T) {
	d := producerDriver{t: t}
	d.table.max = 1000
	for i := range int64(200_000) {
		d.want(i, 0, 0, 1, i, false, nil)
	}
	if n := len(d.table.byID); n != 1000 || d.table.evicted != 199_000 {
		t.Errorf("%d producers, %d evicted", n, d.table.evicted)
	}
	d.want(5, 0, 77, 1, 200_000, false, nil)      // forgotten: may go on
	d.want(199_999, 0, 0, 1, 199_999, true, nil)  // remembered
	d.table.expire(199_500)                       // seen is the offset here
	d.want(199_400, 0, 1, 1, 200_001, false, nil) // as new
	d.want(199_600, 0, 0, 1, 199_600, true, nil)  // remembered
	if n := len(d.table.byID); n > 600 {
		t.Errorf("%d producers after expiry", n)
	}
}

func TestK14ClockJumps(t *testing.T) {
	var c clockWatch
	wall, mono := time.Unix(1_000_000, 0), time.Unix(0, 0)
	look := func(pass, jump time.Duration, want bool) {
		t.Helper()
		wall, mono = wall.Add(pass+jump), mono.Add(pass)
		if got := c.trusted(wall, mono); got != want {
			t.Errorf("after %v and a jump of %v: trusted %v", pass, jump, got)
		}
	}
	look(0, 0, true)
	look(5*time.Minute, 0, true)
	look(5*time.Minute, 24*time.Hour, false)
	look(5*time.Minute, 0, false)
	look(5*time.Minute, -24*time.Hour, false) // set right again
	look(5*time.Minute, 0, false)
	look(5*time.Minute, 0, false)
	look(5*time.Minute, 0, true)
	look(5*time.Minute, -time.Hour, false)
}
