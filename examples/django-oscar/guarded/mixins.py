"""The checkout looks at the stock again, under a lock, in the transaction that writes the order."""

from collections import Counter

from django.db import transaction
from django.shortcuts import redirect

from oscar.apps.checkout import mixins
from oscar.core.loading import get_class, get_model

StockRecord = get_model("partner", "StockRecord")
UnableToPlaceOrder = get_class("order.exceptions", "UnableToPlaceOrder")


class OrderPlacementMixin(mixins.OrderPlacementMixin):
    def handle_order_placement(self, order_number, user, basket, *args, **kwargs):
        try:
            with transaction.atomic():
                wanted = Counter()  # several lines may be of one record
                for line in basket.all_lines():
                    wanted[line.stockrecord_id] += line.quantity
                for pk, quantity in sorted(wanted.items()):
                    record = StockRecord.objects.select_for_update().get(pk=pk)
                    if record.net_stock_level < quantity:
                        raise UnableToPlaceOrder
                return super().handle_order_placement(order_number, user, basket, *args, **kwargs)
        except UnableToPlaceOrder:
            self.restore_frozen_basket()
            return redirect("basket:summary")
