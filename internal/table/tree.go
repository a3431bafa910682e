package table

import (
	"iter"

	"k8s.io/utils/third_party/forked/golang/btree"
)

// degree of the tree: nodes of up to 63 items. Small enough that copying the
// nodes on one path is cheap, large enough that a million items are four deep.
const degree = 32

// Tree is an ordered set of items that one goroutine writes and any number of
// goroutines read, in the form of frozen copies. Freezing is O(1); a write after
// it copies the nodes on its path.
type Tree[T any] struct{ t *btree.BTree[T] }

// NewTree returns an empty tree ordered by less.
func NewTree[T any](less func(a, b T) bool) *Tree[T] {
	// No free list: a freed node may still be part of a frozen copy.
	return &Tree[T]{btree.NewWithFreeList(degree, less, btree.NewFreeList[T](0))}
}

// Set puts item into the tree in place of an equal one, which it returns.
func (t *Tree[T]) Set(item T) (old T, replaced bool) { return t.t.ReplaceOrInsert(item) }

// Delete takes the item equal to key out of the tree and returns it.
func (t *Tree[T]) Delete(key T) (old T, found bool) { return t.t.Delete(key) }

// Get returns the item equal to key.
func (t *Tree[T]) Get(key T) (T, bool) { return t.t.Get(key) }

// Min returns the first item.
func (t *Tree[T]) Min() (T, bool) { return t.t.Min() }

// Len returns the number of items.
func (t *Tree[T]) Len() int { return t.t.Len() }

// Freeze returns the tree as it is now. Only the writer may call it.
func (t *Tree[T]) Freeze() Frozen[T] { return Frozen[T]{t.t.Clone()} }

// Frozen is a state of a Tree that never changes. The zero value is empty.
type Frozen[T any] struct{ t *btree.BTree[T] }

// Get returns the item equal to key.
func (f Frozen[T]) Get(key T) (item T, found bool) {
	if f.t == nil {
		return item, false
	}
	return f.t.Get(key)
}

// Len returns the number of items.
func (f Frozen[T]) Len() int {
	if f.t == nil {
		return 0
	}
	return f.t.Len()
}

// All yields every item in order.
func (f Frozen[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if f.t != nil {
			f.t.Ascend(func(item T) bool { return yield(item) })
		}
	}
}

// From yields the items that are not less than start, in order.
func (f Frozen[T]) From(start T) iter.Seq[T] {
	return func(yield func(T) bool) {
		if f.t != nil {
			f.t.AscendGreaterOrEqual(start, func(item T) bool { return yield(item) })
		}
	}
}
