// Package gormstock is the SQL modes of lastitem in the words of gorm, to be copied: a row lock, a conditional update,
// an optimistic lock and an idempotency key, and the read-then-save that oversells. It needs nothing but gorm, and
// MySQL or MariaDB.
package gormstock

import (
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Product is a row of stock.
type Product struct {
	ID      int64 `gorm:"primaryKey"`
	Stock   int64
	Version uint64
}

// Order is a sale. A repeated request has the key of the first one.
type Order struct {
	ID        uint64 `gorm:"primaryKey"`
	ProductID int64
	Quantity  int64
	Key       *string `gorm:"size:255;uniqueIndex"`
}

// BeforeCreate refuses an order of less than one, with all that its transaction did: stock >= -20 holds, and
// stock - -20 adds twenty.
func (o *Order) BeforeCreate(*gorm.DB) error {
	if o.Quantity < 1 {
		return ErrQuantity
	}
	return nil
}

// These are answers, not failures: nothing was written.
var (
	ErrQuantity  = errors.New("quantity below one")
	ErrSoldOut   = errors.New("sold out")
	ErrContended = errors.New("others wrote first, several times")
)

// ReadThenSave oversells: two requests read 1, and both save 0 and an order. A transaction does not help, since a plain
// SELECT locks nothing. This is the mode unsafe-sql.
func ReadThenSave(db *gorm.DB, product, quantity int64) error {
	return db.Transaction(func(tx *gorm.DB) error {
		var p Product
		if err := tx.First(&p, product).Error; err != nil {
			return err
		}
		if p.Stock < quantity {
			return ErrSoldOut
		}
		p.Stock -= quantity
		if err := tx.Save(&p).Error; err != nil {
			return err
		}
		return tx.Create(&Order{ProductID: product, Quantity: quantity}).Error
	})
}

// ForUpdate reads the row with SELECT ... FOR UPDATE: another transaction that reads it that way waits until this one
// ends. The locking read must be the first read of the transaction. This is the mode sql-for-update.
func ForUpdate(db *gorm.DB, product, quantity int64) error {
	return db.Transaction(func(tx *gorm.DB) error {
		var p Product
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).First(&p, product).Error; err != nil {
			return err
		}
		if p.Stock < quantity {
			return ErrSoldOut
		}
		if err := tx.Model(&p).Update("stock", p.Stock-quantity).Error; err != nil {
			return err
		}
		return tx.Create(&Order{ProductID: product, Quantity: quantity}).Error
	})
}

// Conditional checks and takes in one UPDATE. It reads nothing first, so it cannot act on stale data. RowsAffected is
// the answer: an UPDATE that matches no row is no error. This is the mode sql-atomic.
func Conditional(db *gorm.DB, product, quantity int64) error {
	return db.Transaction(func(tx *gorm.DB) error {
		taken := tx.Model(&Product{}).Where("id = ? AND stock >= ?", product, quantity).
			Update("stock", gorm.Expr("stock - ?", quantity))
		switch {
		case taken.Error != nil:
			return taken.Error
		case taken.RowsAffected == 0:
			return ErrSoldOut
		}
		return tx.Create(&Order{ProductID: product, Quantity: quantity}).Error
	})
}

// errOvertaken rolls a transaction back whose version is not the one that was read.
var errOvertaken = errors.New("the row has changed since it was read")

// Optimistic reads outside a transaction, computes, and writes only if the version is still the one that was read. It
// gives up after some tries. Inside a REPEATABLE READ transaction each try would read the same old row. This is the
// mode sql-version.
func Optimistic(db *gorm.DB, product, quantity int64) error {
	const tries = 50
	for range tries {
		var p Product
		if err := db.First(&p, product).Error; err != nil {
			return err
		}
		if p.Stock < quantity {
			return ErrSoldOut
		}
		err := db.Transaction(func(tx *gorm.DB) error {
			written := tx.Model(&Product{}).Where("id = ? AND version = ?", p.ID, p.Version).
				Updates(map[string]any{"stock": p.Stock - quantity, "version": p.Version + 1})
			switch {
			case written.Error != nil:
				return written.Error
			case written.RowsAffected == 0:
				return errOvertaken
			}
			return tx.Create(&Order{ProductID: product, Quantity: quantity}).Error
		})
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return ErrContended
}

// Once is Conditional for a request that its client may repeat: the order with the key comes first, and if its key is
// there already, the request was served before and nothing is taken. It needs gorm.Config{TranslateError: true}. With
// clause.OnConflict{DoNothing: true} instead, RowsAffected would be 1 for a repeated key if the DSN has
// clientFoundRows=true. This is the idea of the mode idempotent, which also keeps the first answer.
func Once(db *gorm.DB, key string, product, quantity int64) error {
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Order{ProductID: product, Quantity: quantity, Key: &key}).Error; err != nil {
			return err
		}
		taken := tx.Model(&Product{}).Where("id = ? AND stock >= ?", product, quantity).
			Update("stock", gorm.Expr("stock - ?", quantity))
		switch {
		case taken.Error != nil:
			return taken.Error
		case taken.RowsAffected == 0:
			return ErrSoldOut // the rollback takes the order, and its key, away
		}
		return nil
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return nil
	}
	return err
}
