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
	row.redefined, row.resliced = false, false
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
// that no registry defines is not published, even if there are endpoints. What
// follows from reports that were not written is as it was.
func deriveService(key model.ServiceKey, config model.ClusterID, shares map[model.ClusterID]uint8, row *serviceRow) (*model.Definition, []model.Shard) {
	if len(row.definitions) == 0 {
		return nil, nil
	}
	definition, list := row.definition, row.shards
	var accounts []string
	if definition == nil || row.resliced || row.redefined && (namesAccounts(definition.Sources) || slices.ContainsFunc(row.definitions, definitionRow.namesAccounts)) {
		list, accounts = deriveShards(key, shares, row.slices)
		for _, d := range row.definitions {
			for _, account := range d.service.Accounts {
				accounts = addAccount(accounts, account)
			}
		}
	} else {
		accounts = definition.Accounts
	}
	if definition == nil || row.redefined || !slices.Equal(definition.Accounts, accounts) {
		definition = merge(key, config, row.definitions)
		definition.Accounts = accounts
	}
	return definition, list
}

// deriveShards joins what several registries report of one shard, as far as it
// is served, and unites the accounts behind it.
func deriveShards(key model.ServiceKey, shares map[model.ClusterID]uint8, rows []slicesRow) (list []model.Shard, accounts []string) {
	for _, r := range rows {
		if n := len(list); n > 0 && list[n-1].Key == r.shard {
			list[n-1].Slices = slices.Concat(list[n-1].Slices, r.slices)
		} else {
			list = append(list, model.Shard{Key: r.shard, Slices: r.slices})
		}
		for _, s := range r.slices {
			for _, account := range s.Accounts {
				accounts = addAccount(accounts, account)
			}
		}
	}
	for i := range list {
		if share, draining := shares[list[i].Key.Cluster]; draining {
			list[i].Slices = drained(key, list[i].Slices, share)
		}
	}
	return list, accounts
}

// addAccount adds to a sorted set.
func addAccount(accounts []string, account string) []string {
	if i, found := slices.BinarySearch(accounts, account); !found {
		accounts = slices.Insert(accounts, i, account)
	}
	return accounts
}

// namesAccounts reports whether definitions add to the accounts of endpoints.
func namesAccounts(list []*model.Service) bool {
	return slices.ContainsFunc(list, func(s *model.Service) bool { return len(s.Accounts) > 0 })
}

func (d definitionRow) namesAccounts() bool { return len(d.service.Accounts) > 0 }

func sameShard(a, b model.Shard) bool {
	return a.Key == b.Key && slices.EqualFunc(a.Slices, b.Slices, (*model.Slice).Equal)
}
