package aggregate

import (
	"slices"

	"tributary/model"
)

// derive computes one service from what the registries report of it, and
// returns how it differs from what was published. Equal output is no change,
// even if its rows were made anew: meanings are compared, but only of rows whose
// pointers differ. The structural difference decides the push: none, endpoints,
// or service.
func (a *Aggregator) derive(key model.ServiceKey) (model.ServiceDelta, bool) {
	row := a.services[key]
	definition, shards := deriveService(key, a.config, a.shares, row)
	row.redefined = false
	if len(row.definitions) == 0 && len(row.slices) == 0 {
		delete(a.services, key)
	}
	d := model.ServiceDelta{Key: key, Push: model.ServicePush, Shards: shards}
	switch {
	case !definition.Equal(row.definition):
	case !slices.EqualFunc(shards, row.shards, sameShard):
		d.Push = model.EndpointsPush
		definition = row.definition // what is rendered from it stays valid
	default:
		return d, false
	}
	d.Definition = definition
	row.definition, row.shards = definition, shards
	return d, true
}

// deriveService is the rule itself, a pure function of the reports. A service
// that no registry defines is not published, even if there are endpoints.
func deriveService(key model.ServiceKey, config model.ClusterID, shares map[model.ClusterID]uint8, row *serviceRow) (*model.Definition, []model.Shard) {
	if len(row.definitions) == 0 {
		return nil, nil
	}
	var shards []model.Shard
	var accounts []string
	for _, r := range row.slices {
		if n := len(shards); n > 0 && shards[n-1].Key == r.shard {
			shards[n-1].Slices = slices.Concat(shards[n-1].Slices, r.slices)
		} else {
			shards = append(shards, model.Shard{Key: r.shard, Slices: r.slices})
		}
		for _, s := range r.slices {
			for _, account := range s.Accounts {
				if i, found := slices.BinarySearch(accounts, account); !found {
					accounts = slices.Insert(accounts, i, account)
				}
			}
		}
	}
	definition := row.definition
	if row.redefined || definition == nil || !slices.Equal(definition.Accounts, accounts) {
		definition = merge(key, config, row.definitions)
		definition.Accounts = accounts
	} // else a merge would find the same
	for i := range shards {
		if share, draining := shares[shards[i].Key.Cluster]; draining {
			shards[i].Slices = drained(key, shards[i].Slices, share)
		}
	}
	return definition, shards
}

func sameShard(a, b model.Shard) bool {
	return a.Key == b.Key && slices.EqualFunc(a.Slices, b.Slices, (*model.Slice).Equal)
}
