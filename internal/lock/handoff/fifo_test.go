package handoff

import (
	"slices"
	"testing"
)

// namesInOrder lists the names of a queue's members forwards, and fails if the list backwards differs.
func namesInOrder(t *testing.T, q *fifo[string]) (names []string) {
	t.Helper()
	for name := range q.all() {
		names = append(names, *name)
	}
	var back []string
	for p := q.last; p != nil; p = p.before {
		back = append(back, *p.member)
	}
	slices.Reverse(back)
	if !slices.Equal(names, back) || len(names) != q.size {
		t.Errorf("forwards %v, backwards %v, size %d", names, back, q.size)
	}
	return names
}

func queueOf(names ...string) (*fifo[string], []*place[string]) {
	q, places := &fifo[string]{}, make([]*place[string], len(names))
	for i := range names {
		places[i] = &place[string]{member: &names[i]}
		q.push(places[i])
	}
	return q, places
}

func TestFifo(t *testing.T) {
	for _, leaves := range [][]int{{}, {0}, {2}, {4}, {0, 4}, {1, 2, 3}, {4, 3, 2, 1, 0}, {0, 1, 2, 3, 4}} {
		q, places := queueOf("a", "b", "c", "d", "e")
		want := []string{"a", "b", "c", "d", "e"}
		for _, i := range leaves {
			name := *places[i].member
			want = slices.DeleteFunc(want, func(other string) bool { return other == name })
			if !q.remove(places[i]) || q.remove(places[i]) {
				t.Errorf("%s leaves: want true, and false the second time", name)
			}
			if got := namesInOrder(t, q); !slices.Equal(got, want) {
				t.Errorf("after %v left there are %v, want %v", leaves, got, want)
			}
		}
		for _, name := range want {
			if got := *q.pop(); got != name {
				t.Errorf("pop() = %s, want %s", got, name)
			}
		}
		q.push(places[2])
		if got := namesInOrder(t, q); !slices.Equal(got, []string{"c"}) {
			t.Errorf("after one came back there are %v", got)
		}
	}
	q, _ := queueOf("a", "b", "c")
	other, places := queueOf("d")
	if q.remove(places[0]) || other.size != 1 {
		t.Error("removed from a queue that it was not in")
	}
}

// Leaving takes constant time. Here the links from both ends to the member that leaves are cut, so a search for it would fail.
func TestFifoLeavingLooksAtNoOthers(t *testing.T) {
	q, places := queueOf("a", "b", "c", "d", "e", "f", "g")
	places[1].after, places[5].before = nil, nil
	if !q.remove(places[3]) || places[2].after != places[4] || places[4].before != places[2] {
		t.Error("it did not leave, or its neighbours do not know")
	}
}
