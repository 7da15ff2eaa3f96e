package admin

import (
	"cmp"
	"net/http"
	"strings"

	"millrace/kafka"
)

// GroupRow is a group in /api/groups. Rates are nil where they are not known yet.
type GroupRow struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	State    string   `json:"state"`
	Members  int      `json:"members"`
	Offsets  int      `json:"offsets"` // committed, of partitions that are here
	Lag      int64    `json:"lag"`     // records, of all of them
	ReadRate *float64 `json:"records_committed_per_second"`
	LagRate  *float64 `json:"lag_growth_per_second"` // below zero: it catches up

	committed int64
}

func (v *view) groupRows() []GroupRow {
	return v.groupBoard.look(func(before []GroupRow, since float64) []GroupRow {
		old := make(map[string]*GroupRow, len(before))
		for i := range before {
			old[before[i].ID] = &before[i]
		}
		summaries, _ := v.Kafka.GroupSummaries()
		rows := make([]GroupRow, 0, len(summaries))
		for _, s := range summaries {
			row := GroupRow{ID: s.ID, Type: s.Type, State: s.State, Members: s.Members}
			row.Offsets, row.Lag, row.committed = v.Kafka.GroupLagSum(s.ID)
			if o := old[row.ID]; o != nil {
				row.ReadRate = rate(row.committed, o.committed, since)
				growth := float64(row.Lag-o.Lag) / since
				row.LagRate = &growth
			}
			rows = append(rows, row)
		}
		return rows
	})
}

func (v *view) groups(p *parameters) (any, error) {
	order := p.choice("sort", "id", "lag", "rate")
	return listed(p, v.groupRows(), func(g *GroupRow) string { return g.ID }, func(a, b *GroupRow) int {
		switch order {
		case "lag":
			return cmp.Compare(b.Lag, a.Lag)
		case "rate":
			return byRate(a.ReadRate, b.ReadRate)
		}
		return strings.Compare(a.ID, b.ID)
	}), nil
}

type groupMember struct {
	ID         string          `json:"id"`
	InstanceID string          `json:"instance_id"`
	ClientID   string          `json:"client_id"`
	Host       string          `json:"host"`
	Assigned   []groupAssigned `json:"assigned"`
}

type groupAssigned struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Lag       int64  `json:"lag"`
}

type groupDetail struct {
	GroupRow
	MemberList  []groupMember `json:"member_list"`
	MembersLeft int           `json:"members_left"` // not in the list, since there are too many
	OffsetList  []groupOffset `json:"offset_list"`
	OffsetsLeft int           `json:"offsets_left"` // not in the list, since there are too many
}

func (v *view) group(p *parameters) (any, error) {
	out := groupDetail{MemberList: []groupMember{}, OffsetList: []groupOffset{}}
	id, found := p.text("id"), false
	for _, row := range v.groupRows() {
		if row.ID == id {
			out.GroupRow, found = row, true
		}
	}
	if !found {
		return nil, refusef(http.StatusNotFound, "there is no group %q", id)
	}
	room := listBytesMax
	for _, m := range v.Kafka.GroupMembers(id) {
		room -= sizeOf(&m)
		if len(out.MemberList) == listMax || room < 0 {
			out.MembersLeft++
			continue
		}
		out.MemberList = append(out.MemberList, memberOf(&m))
	}
	for _, l := range v.Kafka.GroupLagsOf(id) {
		if len(out.OffsetList) == listMax {
			out.OffsetsLeft++
			continue
		}
		out.OffsetList = append(out.OffsetList, groupOffset{l.Topic, l.Partition, l.Offset, l.Records})
	}
	return out, nil
}

// sizeOf returns about how many bytes a member takes.
func sizeOf(m *kafka.GroupMember) int {
	n := len(m.ID) + len(m.InstanceID) + len(m.ClientID) + len(m.Host)
	for _, a := range m.Assigned {
		n += len(a.Topic) + 8*len(a.Partitions)
	}
	return n
}

func memberOf(m *kafka.GroupMember) groupMember {
	row := groupMember{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host, Assigned: []groupAssigned{}}
	for _, a := range m.Assigned {
		row.Assigned = append(row.Assigned, groupAssigned{a.Topic, a.Partitions})
	}
	return row
}

// ClientRow is a client id in /api/clients. Rates are nil where they are not known yet.
type ClientRow struct {
	ID           string   `json:"id"`
	Address      string   `json:"address"`
	Connections  int      `json:"connections"`
	Requests     int64    `json:"requests"`
	Produced     int64    `json:"produced_bytes"`
	Fetched      int64    `json:"fetched_bytes"`
	RequestRate  *float64 `json:"requests_per_second"`
	ProducedRate *float64 `json:"produced_bytes_per_second"`
	FetchedRate  *float64 `json:"fetched_bytes_per_second"`
}

func (v *view) clients(p *parameters) (any, error) {
	rows := v.clientBoard.look(func(before []ClientRow, since float64) []ClientRow {
		old := make(map[string]*ClientRow, len(before))
		for i := range before {
			old[before[i].ID] = &before[i]
		}
		var rows []ClientRow
		for _, c := range v.Kafka.Clients() {
			row := ClientRow{ID: c.ID, Address: c.Address, Connections: c.Connections, Requests: c.Requests, Produced: c.ProducedBytes, Fetched: c.FetchedBytes}
			if o := old[row.ID]; o != nil {
				row.RequestRate, row.ProducedRate, row.FetchedRate =
					rate(row.Requests, o.Requests, since), rate(row.Produced, o.Produced, since), rate(row.Fetched, o.Fetched, since)
			}
			rows = append(rows, row)
		}
		return rows
	})
	order := p.choice("sort", "id", "rate", "requests")
	return listed(p, rows, func(c *ClientRow) string { return c.ID }, func(a, b *ClientRow) int {
		switch order {
		case "rate":
			return byRate(sum(a.ProducedRate, a.FetchedRate), sum(b.ProducedRate, b.FetchedRate))
		case "requests":
			return byRate(a.RequestRate, b.RequestRate)
		}
		return strings.Compare(a.ID, b.ID)
	}), nil
}

// sum adds two rates that are known or unknown together.
func sum(a, b *float64) *float64 {
	if a == nil {
		return nil
	}
	s := *a + *b
	return &s
}
