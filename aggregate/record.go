package aggregate

import (
	"cmp"
	"slices"

	"tributary/model"
)

// serviceRow is what all registries report of one service, and what was last
// published of it.
type serviceRow struct {
	definitions []definitionRow // sorted by owner
	slices      []slicesRow     // sorted by shard, then owner
	redefined   bool            // definitions were written since derive
	resliced    bool            // slices were, or the share that is served of them

	definition *model.Definition
	shards     []model.Shard
}

// Every report has an owner, the registry that made it: a service of cluster B
// may have endpoints in the shard of cluster A, and they go with either.
type definitionRow struct {
	owner   model.ShardKey
	service *model.Service
}

type slicesRow struct {
	shard  model.ShardKey
	owner  model.ShardKey
	slices []*model.Slice
}

func (r slicesRow) compare(o slicesRow) int {
	return cmp.Or(r.shard.Compare(o.shard), r.owner.Compare(o.owner))
}

// recorder is the XDSUpdater of one registry: it writes down what the registry
// reports and marks the service. All reports of a round become one Delta.
type recorder struct {
	a     *Aggregator
	owner model.ShardKey
}

func (r recorder) mark(key model.ServiceKey, create bool) *serviceRow {
	row := r.a.services[key]
	if row == nil {
		if !create {
			return nil
		}
		row = &serviceRow{}
		r.a.services[key] = row
	}
	r.a.dirty[key] = struct{}{}
	return row
}

// SvcUpdate implements model.XDSUpdater.
func (r recorder) SvcUpdate(key model.ServiceKey, svc *model.Service) {
	row := r.mark(key, svc != nil)
	if row == nil {
		return
	}
	row.redefined = true
	i, found := slices.BinarySearchFunc(row.definitions, r.owner, func(d definitionRow, k model.ShardKey) int { return d.owner.Compare(k) })
	switch {
	case svc == nil && found:
		row.definitions = slices.Delete(row.definitions, i, i+1)
	case svc != nil && found:
		row.definitions[i].service = svc
	case svc != nil:
		row.definitions = slices.Insert(row.definitions, i, definitionRow{r.owner, svc})
	}
}

// EDSUpdate implements model.XDSUpdater.
func (r recorder) EDSUpdate(shard model.ShardKey, key model.ServiceKey, list []*model.Slice) {
	row := r.mark(key, len(list) > 0)
	if row == nil {
		return
	}
	row.resliced = true
	entry := slicesRow{shard, r.owner, list}
	i, found := slices.BinarySearchFunc(row.slices, entry, slicesRow.compare)
	switch {
	case len(list) == 0 && found:
		row.slices = slices.Delete(row.slices, i, i+1)
	case len(list) > 0 && found:
		row.slices[i] = entry
	case len(list) > 0:
		row.slices = slices.Insert(row.slices, i, entry)
	}
}
