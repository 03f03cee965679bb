// What mends it: before stock is allocated, the transaction of the payment writes the product's rows of stock_level.
// Others who pay for the product then wait for its end, and what Vendure reads of these rows from now on is new: at
// REPEATABLE READ a transaction that has only locked a row (FOR UPDATE) goes on to read it as it was when it began.
const {MultiChannelStockLocationStrategy, StockLevel, UserInputError} = require('@vendure/core');

class GuardedStockLocations extends MultiChannelStockLocationStrategy {
  async forAllocation(ctx, locations, line, quantity) {
    await this.connection.getRepository(ctx, StockLevel).createQueryBuilder().update()
      .set({updatedAt: () => 'CURRENT_TIMESTAMP(6)'}).where({productVariantId: line.productVariantId}).execute();
    const found = await super.forAllocation(ctx, locations, line, quantity);
    if (found.reduce((sum, at) => sum + at.quantity, 0) < quantity) {
      throw new UserInputError('INSUFFICIENT_STOCK'); // rolls payment and order back
    }
    return found;
  }
}

exports.guarded = config => ({...config, catalogOptions: {stockLocationStrategy: new GuardedStockLocations()}});
